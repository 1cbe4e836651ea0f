// Random trainings, evaluations between their steps: every program takes exactly the bytes that were counted for it, device by device and
// action by action.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/plan/plan_programs.h"
#include "parallel/program/program_bytes.h"
#include "parallel/trainer.h"
#include "tests/parallel/random_graph.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::Draw;

constexpr int kRuns = 200, kLeastActions = 3, kMostActions = 5;

struct Model {
  const char* name;
  layers::Graph graph;
  Batch (*batch)(int64_t samples, uint64_t seed);
};

Batch tiny_tokens(int64_t samples, uint64_t seed) {
  return sluice::testing::token_batch(sluice::testing::tiny_transformer_options(), samples, seed);
}

layers::Graph transformer(bool tied) {
  auto options = sluice::testing::tiny_transformer_options();
  options.tied_embeddings = tied;
  return models::transformer_lm(options);
}

Model whole_model(Draw& draw) {
  switch (draw.from(0, 3)) {
    case 0:
      return {"skips", sluice::testing::skip_graph(), sluice::testing::skip_batch};
    case 1:
      return {"images", sluice::testing::image_graph(), sluice::testing::image_batch};
    case 2:
      return {"tied transformer", transformer(true), tiny_tokens};
    default:
      return {"transformer", transformer(false), tiny_tokens};
  }
}

/// A model, or one that is fine-tuned: parts of it are frozen.
Model random_model(Draw& draw) {
  Model model = whole_model(draw);
  if (!draw.one_in(3)) return model;
  std::vector<std::string> names;
  for (const auto& parameter : model.graph.parameters())
    if (draw.one_in(2)) names.push_back(parameter.name);
  if (names.size() < model.graph.parameters().size())
    for (const auto& name : names) model.graph.freeze(name);
  return model;
}

std::vector<DevicePtr> cpus(int count) {
  std::vector<DevicePtr> made;
  for (int i = 0; i < count; ++i) made.push_back(make_device(join("cpu:", i)));
  return made;
}

Plan random_plan(const Model& model, const Optimizer& optimizer, Draw& draw) {
  PlanOptions options;
  options.batch = draw.from(4, 9);
  options.micro_batches = draw.from(1, 4);
  const int schedule = draw.from(0, static_cast<int>(kNamedSchedules.size()));
  if (schedule == static_cast<int>(kNamedSchedules.size()))
    options.schedule = kOpen;
  else if (kNamedSchedules[schedule] == NamedSchedule::interleaved)
    options.schedule = {NamedSchedule::interleaved, 2};
  else
    options.schedule = kNamedSchedules[schedule];
  options.partition = draw.of<PartitionChoice>({kOpen, PartitionRule::uniform});
  options.remat = draw.of<RematChoice>({Remat::none, Remat::full, kOpen});
  options.precision = draw.one_in(3) ? Precision::bf16 : Precision::f32;
  options.optimizer = &optimizer;
  return plan(model.graph, cpus(draw.from(1, 3)), options);
}

/// Empty when every device's peak of the last run is the program's.
std::string fault_of(const Plan& plan, const Program& program) {
  std::string fault;
  const auto counted = peak_bytes(program);
  for (size_t i = 0; i < plan.devices.size(); ++i)
    if (plan.devices[i]->peak_bytes() != counted[i])
      fault += join("; ", plan.devices[i]->name(), " took ", plan.devices[i]->peak_bytes(), " bytes, counted were ", counted[i]);
  return fault;
}

/// Empty when every action left the bytes live that were counted for it.
std::string fault_of(const Trace& trace, const Topology& topology) {
  for (const TraceEvent& event : trace.events)
    if (event.live_bytes != event.action.live_bytes || event.action.peak_bytes < event.live_bytes)
      return join("; ", describe(event.action, topology), " left ", event.live_bytes, " bytes, counted were ", event.action.live_bytes,
                  " after a peak of ", event.action.peak_bytes);
  return {};
}

/// One training, described and judged action by action.
class RandomRun {
 public:
  explicit RandomRun(int number) : draw_(static_cast<uint64_t>(number)), model_(random_model(draw_)), optimizer_({.lr = 1e-2}) {
    if (draw_.one_in(3)) optimizer_.ema = 0.9;
    plan_ = random_plan(model_, optimizer_, draw_);
    topology_ = topology_of(model_.graph);
    description_ = join(model_.name, ", ", name_of(plan_.schedule), " over ", plan_.devices.size(), " devices in ",
                        plan_.partition.stage_count(), " stages, ", name_of(plan_.precision), optimizer_.ema > 0 ? ", averages" : "");
  }

  /// What is wrong; empty when nothing is.
  std::string fault() {
    Trainer trainer(model_.graph, plan_, optimizer_, {.seed = 3, .timeout_seconds = 60});
    PlanPrograms programs(model_.graph, topology_, plan_, stage_options(plan_, optimizer_));
    for (int left = draw_.from(kLeastActions, kMostActions); left > 0; --left) {
      const int64_t samples = draw_.from(1, 9);
      const Batch batch = model_.batch(samples, static_cast<uint64_t>(left));
      for (const auto& device : plan_.devices) device->reset_peak();
      const std::string fault = draw_.one_in(2) ? evaluate(trainer, programs, batch) : step(trainer, programs, batch);
      if (!fault.empty()) return description_ + fault;
    }
    return {};
  }

 private:
  std::string evaluate(Trainer& trainer, PlanPrograms& programs, const Batch& batch) {
    const bool with_output = draw_.one_in(2);
    description_ += join("; evaluates ", batch.samples, " samples", with_output ? " with output" : "");
    trainer.evaluate(batch, with_output);
    return fault_of(plan_, programs.get(programs.evaluation(shape_of(model_.graph, batch), with_output)));
  }

  std::string step(Trainer& trainer, PlanPrograms& programs, const Batch& batch) {
    const int micro_batches = draw_.from(1, static_cast<int>(std::min<int64_t>(batch.samples, 5)));
    description_ += join("; trains ", batch.samples, " samples in ", micro_batches);
    trainer.step(batch, micro_batches);
    const std::string fault = fault_of(plan_, programs.get(programs.step(shape_of(model_.graph, batch), micro_batches)));
    return fault + fault_of(trainer.trace(), topology_);
  }

  Draw draw_;
  Model model_;
  AdamW optimizer_;
  Plan plan_;
  Topology topology_;
  std::string description_;
};

TEST(CountedBytes, AreThoseOfEveryDeviceAndActionInRandomTrainings) {
  for (int number = 0; number < kRuns; ++number) {
    const std::string fault = RandomRun(number).fault();
    ASSERT_TRUE(fault.empty()) << "run " << number << ": " << fault;
  }
}

/// Of samples that do not share evenly: what crosses is as large as its micro-batch.
TEST(CountedBytes, OfATransferAreThoseOfItsTensorAtBothEnds) {
  constexpr int kSamples = 10, kMicroBatches = 4, kWidth = 8;
  const layers::Graph graph = sluice::testing::skip_graph();
  const Topology topology = topology_of(graph);
  const AdamW optimizer({.lr = 1e-2});
  const Plan chosen = plan(graph, cpus(3), {.batch = kSamples, .micro_batches = kMicroBatches, .partition = PartitionRule::uniform});
  PlanPrograms programs(graph, topology, chosen, stage_options(chosen, optimizer));
  const auto first = micro_batch_bounds(kSamples, kMicroBatches);
  int transfers = 0;
  for (const auto& actions : programs.get(programs.step(declared_shape(graph, kSamples))).devices)
    for (const Action& action : actions) {
      const int64_t samples = action.transfer.of_micro_batch() ? first[action.micro_batch + 1] - first[action.micro_batch] : 0;
      if (samples == 0 || (action.kind != ActionKind::send && action.kind != ActionKind::recv)) continue;
      ++transfers;
      EXPECT_EQ(action.bytes, samples * kWidth * static_cast<int64_t>(sizeof(float))) << describe(action, topology);
    }
  EXPECT_GT(transfers, 4 * kMicroBatches);
}

}  // namespace
}  // namespace sluice::parallel
