// Every program that the verifier passes runs to its end with the same bits, whatever the moments at which the devices act.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "parallel/plan.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "tests/parallel/program_run.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::ProgramRun;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::StepAnswer;

constexpr int64_t kSamples = 6;
constexpr int kInstancesACase = 30;
constexpr auto kLongest = std::chrono::seconds(10);

using Random = std::mt19937_64;
int draw(Random& random, int min, int end) { return min + static_cast<int>(random() % static_cast<uint64_t>(end - min)); }

struct Model {
  layers::Graph graph;
  Batch batch;
};

const std::vector<Model>& models() {
  static const std::vector<Model> all{{skip_graph(), skip_batch(kSamples, 1)}, {image_graph(), image_batch(kSamples, 1)}};
  return all;
}

Partition random_partition(Random& random, int nodes, int stages) {
  Partition partition{std::vector<int>(static_cast<size_t>(stages), 1)};
  for (int rest = nodes - stages; rest > 0; --rest) ++partition.sizes[static_cast<size_t>(draw(random, 0, stages))];
  return partition;
}

/// Any order of work that the data allow: one action after another, drawn from those that are ready. Each micro-batch's backward is one
/// action or two.
Schedule random_schedule(Random& random, int stages, int devices, int micro_batches) {
  Schedule schedule{"random", micro_batches, {}, std::vector<std::vector<ComputeAction>>(static_cast<size_t>(devices))};
  for (int stage = 0; stage < stages; ++stage) schedule.device_of_stage.push_back(stage < devices ? stage : draw(random, 0, devices));
  std::ranges::shuffle(schedule.device_of_stage, random);

  enum Progress { kNothing, kForward, kInputs, kAll };
  std::vector<std::vector<Progress>> done(stages, std::vector<Progress>(micro_batches, kNothing));
  const auto others_reached = [&](int first, int end, int micro_batch, Progress progress) {
    for (int stage = first; stage < end; ++stage)
      if (done[stage][micro_batch] < progress) return false;
    return true;
  };
  for (;;) {
    std::vector<ComputeAction> ready;
    for (int s = 0; s < stages; ++s)
      for (int m = 0; m < micro_batches; ++m) {
        const bool sums_are_next = m == 0 || done[s][m - 1] == kAll;
        const bool gradients_are_there = others_reached(s + 1, stages, m, kInputs);
        if (done[s][m] == kNothing && others_reached(0, s, m, kForward)) ready.push_back({Compute::forward, s, m});
        if (done[s][m] == kForward && gradients_are_there) ready.push_back({Compute::input_gradient, s, m});
        if (done[s][m] == kForward && gradients_are_there && sums_are_next) ready.push_back({Compute::backward, s, m});
        if (done[s][m] == kInputs && sums_are_next) ready.push_back({Compute::weight_gradient, s, m});
      }
    if (ready.empty()) return schedule;
    const ComputeAction action = ready[random() % ready.size()];
    schedule.devices[static_cast<size_t>(schedule.device_of_stage[action.stage])].push_back(action);
    done[action.stage][action.micro_batch] = action.kind == Compute::forward          ? kForward
                                             : action.kind == Compute::input_gradient ? kInputs
                                                                                      : kAll;
  }
}

Schedule drawn_schedule(Random& random, int nodes, int micro_batches) {
  const int devices = draw(random, 1, 5);
  const auto which = static_cast<size_t>(draw(random, 0, static_cast<int>(kNamedSchedules.size()) + 3));
  if (which >= kNamedSchedules.size()) {
    const int stages = draw(random, devices, std::min(nodes, 2 * devices) + 1);
    return random_schedule(random, stages, devices, micro_batches);
  }
  const NamedSchedule named = kNamedSchedules[which];
  return make_schedule(named, devices, micro_batches, named == NamedSchedule::interleaved ? 2 : 1);
}

/// Some actions of some devices wait a little, drawn by device; most do not.
Executor::BeforeAction random_delays(Random& random, int devices) {
  auto draws = std::make_shared<std::vector<Random>>();
  for (int device = 0; device < devices; ++device) draws->emplace_back(random());
  return [draws](int device, const Action&, const std::stop_token&) {
    const uint64_t value = (*draws)[static_cast<size_t>(device)]();
    if (value % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(value / 8 % 150));
    if (value % 8 == 1) std::this_thread::yield();
  };
}

/// Of a model cut into so many micro-batches: what one device makes of it.
const StepAnswer& answer_of(size_t model, int micro_batches) {
  static std::map<std::pair<size_t, int>, StepAnswer> known;
  auto& answer = known[{model, micro_batches}];
  if (answer.hash.empty()) {
    const Topology topology = topology_of(models()[model].graph);
    const int nodes = topology.node_count();
    const Program program =
        lower(topology, {{nodes}}, make_schedule(NamedSchedule::gpipe, 1, micro_batches), std::vector<bool>(nodes, false));
    answer = ProgramRun(models()[model].graph, program, "cpu", 60).step(models()[model].batch);
  }
  return answer;
}

void run_instance(uint64_t seed) {
  RC_LOG() << "instance " << seed << "\n";
  Random random(seed);
  const auto which = static_cast<size_t>(draw(random, 0, static_cast<int>(models().size())));
  const auto& [graph, batch] = models()[which];
  const Topology topology = topology_of(graph);
  const int micro_batches = draw(random, 1, kSamples + 1);
  const Schedule schedule = drawn_schedule(random, topology.node_count(), micro_batches);
  std::vector<bool> rematerialize;
  for (int node = 0; node < topology.node_count(); ++node) rematerialize.push_back(draw(random, 0, 3) == 0);
  const Partition partition = random_partition(random, topology.node_count(), schedule.stage_count());
  const Program program = lower(topology, partition, schedule, rematerialize);
  const auto violation = verify(topology, program);
  RC_ASSERT(!violation);

  ProgramRun run(graph, program, "cpu", 60);
  run.executor().set_before_action(random_delays(random, program.device_count()));
  RC_ASSERT(run.step(batch) == answer_of(which, micro_batches));
}

TEST(Stress, EveryProgramThatIsVerifiedRunsToItsEndWithOneAnswerWhateverTheDelays) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  int instances = 0;
  EXPECT_TRUE(rc::check([&] {
    const auto seed = *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<uint64_t>());
    for (uint64_t i = 0; i < kInstancesACase && std::chrono::steady_clock::now() < deadline; ++i, ++instances)
      run_instance(seed * kInstancesACase + i);
  }));
  RecordProperty("instances", instances);
  EXPECT_GE(instances, 10) << "a step of a tiny model takes far too long";
}

}  // namespace
}  // namespace sluice::parallel
