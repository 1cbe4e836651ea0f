// Every program that the verifier passes runs to its end with the same bits, whatever the moments at which the devices act and whichever
// rank has them; and those that lost a message or crossed two are refused, and end with a report when they run all the same.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "parallel/group/thread_group.h"
#include "parallel/plan.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "tests/expect_error.h"
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
constexpr int kInstancesACase = 30, kFewestInstances = 10;
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

Schedule drawn_schedule(Random& random, int devices, int nodes, int micro_batches) {
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
  if (answer.weights.empty()) {
    const Topology topology = topology_of(models()[model].graph);
    const int nodes = topology.node_count();
    const Program program =
        lower(topology, {{nodes}}, make_schedule(NamedSchedule::gpipe, 1, micro_batches), std::vector<bool>(nodes, false));
    answer = ProgramRun(models()[model].graph, program, "cpu", 60).step(models()[model].batch);
  }
  return answer;
}

struct Instance {
  size_t model;
  int micro_batches;
  Topology topology;
  Program program;
};

Instance drawn_instance(Random& random, int devices) {
  const auto model = static_cast<size_t>(draw(random, 0, static_cast<int>(models().size())));
  const int micro_batches = draw(random, 1, kSamples + 1);
  Topology topology = topology_of(models()[model].graph);
  const int nodes = topology.node_count();
  const Schedule schedule = drawn_schedule(random, devices, nodes, micro_batches);
  std::vector<bool> rematerialize;
  for (int node = 0; node < nodes; ++node) rematerialize.push_back(draw(random, 0, 3) == 0);
  Program program = lower(topology, random_partition(random, nodes, schedule.stage_count()), schedule, rematerialize);
  return {model, micro_batches, std::move(topology), std::move(program)};
}

void run_instance(uint64_t seed) {
  RC_LOG() << "instance " << seed << "\n";
  Random random(seed);
  const Instance drawn = drawn_instance(random, draw(random, 1, 5));
  RC_ASSERT(!verify(drawn.topology, drawn.program));

  const auto& [graph, batch] = models()[drawn.model];
  ProgramRun run(graph, drawn.program, "cpu", 60);
  run.executor().set_before_action(random_delays(random, drawn.program.device_count()));
  RC_ASSERT(run.step(batch) == answer_of(drawn.model, drawn.micro_batches));
}

TEST(Stress, EveryProgramThatIsVerifiedRunsToItsEndWithOneAnswerWhateverTheDelays) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  int instances = 0;
  EXPECT_TRUE(rc::check([&] {
    const auto seed = *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<uint64_t>());
    for (uint64_t i = 0; i < kInstancesACase; ++i, ++instances) {
      if (instances >= kFewestInstances && std::chrono::steady_clock::now() >= deadline) return;
      run_instance(seed * kInstancesACase + i);
    }
  }));
  RecordProperty("instances", instances);
}

/// How many programs run over ranks: SLUICE_RANK_PROGRAMS.
uint64_t rank_programs() {
  const char* const text = std::getenv("SLUICE_RANK_PROGRAMS");
  return text ? std::strtoull(text, nullptr, 10) : 150;
}

struct RankCount {
  int ranks, devices;
};

RankCount drawn_ranks(Random& random) {
  constexpr RankCount kAll[] = {{2, 2}, {2, 4}, {3, 3}, {4, 4}};
  return kAll[random() % std::size(kAll)];
}

/// What the ranks together make of one step. Errors  the first rank's that fails.
StepAnswer step_over_ranks(const Instance& drawn, int ranks, uint64_t seed, double timeout_seconds) {
  const auto& [graph, batch] = models()[drawn.model];
  std::mutex mutex;
  std::vector<StepAnswer> answers;
  run_ranks(ranks, [&, &graph = graph, &batch = batch](Group& group) {
    Random random(seed + static_cast<uint64_t>(group.rank()));
    ProgramRun run(graph, drawn.program, "cpu", timeout_seconds, &group);
    run.executor().set_before_action(random_delays(random, drawn.program.device_count()));
    StepAnswer answer = run.step(batch);
    std::lock_guard lock(mutex);
    answers.push_back(std::move(answer));
  });
  StepAnswer all = answers[0];
  for (auto& answer : answers) {
    EXPECT_EQ(answer.loss, all.loss);
    EXPECT_EQ(answer.gradient_norm, all.gradient_norm);
    all.weights.merge(answer.weights);
  }
  return all;
}

TEST(Stress, EveryProgramThatIsVerifiedRunsOverRanksWithTheAnswerOfOneDevice) {
  for (uint64_t seed = 0; seed < rank_programs(); ++seed) {
    Random random(seed);
    const RankCount count = drawn_ranks(random);
    const Instance drawn = drawn_instance(random, count.devices);
    ASSERT_FALSE(verify(drawn.topology, drawn.program)) << seed;
    ASSERT_EQ(step_over_ranks(drawn, count.ranks, seed, 60), answer_of(drawn.model, drawn.micro_batches)) << seed;
  }
}

bool is_of(const Action& action, const Action& other) {
  return action.is_transfer() && action.transfer == other.transfer && action.micro_batch == other.micro_batch;
}

/// A way to lose what `recv` waits for; whether the program has room for it.
struct Fault {
  std::string name;
  std::function<bool(Program&, const Action& recv)> plant;
  std::string report;  ///< what the error has to say
  double timeout_seconds = 0.5;
};

bool lose_the_message(Program& program, const Action& recv) {
  return std::erase_if(program.devices[program.sender(recv.transfer)], [&](const Action& a) {
           return is_of(a, recv) && (a.kind == ActionKind::send || a.kind == ActionKind::send_wait);
         }) > 0;
}

/// The receiver takes them for each other where nobody compares.
bool cross_two_messages(Program& program, const Action& recv) {
  auto& actions = program.devices[program.receiver(recv.transfer)];
  const auto post = std::ranges::find_if(actions, [&](const Action& a) { return is_of(a, recv) && a.kind == ActionKind::recv_post; });
  const auto next = std::find_if(post + 1, actions.end(), [&](const Action& a) {
    return a.kind == ActionKind::recv_post && program.sender(a.transfer) == program.sender(recv.transfer);
  });
  if (next == actions.end()) return false;
  // The other one has to be posted before this one is waited for.
  std::rotate(post, next, next + 1);
  return true;
}

bool forget_the_post(Program& program, const Action& recv) {
  return std::erase_if(program.devices[program.receiver(recv.transfer)],
                       [&](const Action& a) { return is_of(a, recv) && a.kind == ActionKind::recv_post; }) > 0;
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"a lost message", lose_the_message, "within 0.5 s (pipeline.timeout)"},
      {"two messages of a channel in each other's place", cross_two_messages, "within 0.5 s (pipeline.timeout)"},
      {"a receive that is not posted", forget_the_post, "needs a transfer that has begun", 60}};
  return all;
}

/// The receives of what comes from another rank.
std::vector<Action> receives_between(const Program& program, int ranks) {
  const int per_rank = program.device_count() / ranks;
  std::vector<Action> found;
  for (const auto& actions : program.devices)
    for (const Action& a : actions)
      if (a.kind == ActionKind::recv && program.sender(a.transfer) / per_rank != program.receiver(a.transfer) / per_rank)
        found.push_back(a);
  return found;
}

TEST(Stress, EveryPlantedFaultOfAMessageBetweenRanksIsRefused) {
  std::map<std::string, int> planted;
  for (uint64_t seed = 0; seed < rank_programs(); ++seed) {
    Random random(seed);
    const RankCount count = drawn_ranks(random);
    const Instance drawn = drawn_instance(random, count.devices);
    for (const Action& recv : receives_between(drawn.program, count.ranks))
      for (const Fault& fault : faults()) {
        Program program = drawn.program;
        if (!fault.plant(program, recv)) continue;
        ASSERT_TRUE(verify(drawn.topology, program)) << seed << ": " << fault.name << ": " << describe(recv, drawn.topology);
        ++planted[fault.name];
      }
  }
  for (const Fault& fault : faults()) EXPECT_GT(planted[fault.name], 100) << fault.name;
}

TEST(Stress, EveryPlantedFaultOfAMessageBetweenRanksIsReportedWhereItRuns) {
  const uint64_t programs = std::max<uint64_t>(2, rank_programs() / 50);
  for (const Fault& fault : faults()) {
    uint64_t forced = 0;
    for (uint64_t seed = 0; forced < programs; ++seed) {
      Random random(seed);
      const RankCount count = drawn_ranks(random);
      Instance drawn = drawn_instance(random, count.devices);
      const auto receives = receives_between(drawn.program, count.ranks);
      if (receives.empty() || !fault.plant(drawn.program, receives[random() % receives.size()])) continue;
      expect_error<Error>([&] { step_over_ranks(drawn, count.ranks, seed, fault.timeout_seconds); }, {fault.report});
      ++forced;
    }
  }
}

}  // namespace
}  // namespace sluice::parallel
