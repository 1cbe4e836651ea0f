// What the first steps of a training show of its plan, and moving to another plan between two steps.
#include "parallel/replan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "parallel/checkpoint.h"
#include "parallel/plan.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::tiny_classifier;
using sluice::testing::tiny_language_model;
using sluice::testing::TinyModel;

constexpr int64_t kSamples = 8;

AdamW optimizer_with_averages() {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = 0.9;
  return optimizer;
}

struct Way {
  std::string devices;
  ScheduleChoice schedule = NamedSchedule::one_f_one_b;
  Remat remat = Remat::none;
  int micro_batches = 4;
  Precision precision = Precision::f32;
  int replicas = 1;
  bool shards_optimizer = true;
};

PlanOptions options_of(const Way& way) {
  return {.batch = kSamples,
          .micro_batches = way.micro_batches,
          .schedule = way.schedule,
          .remat = way.remat,
          .precision = way.precision,
          .replicas = way.replicas,
          .shards_optimizer = way.shards_optimizer};
}

Plan plan_of(const TinyModel& model, const std::vector<DevicePtr>& devices, const Way& way,
             PartitionChoice partition = PartitionRule::uniform) {
  PlanOptions options = options_of(way);
  options.partition = std::move(partition);
  return plan(model.graph, devices, options);
}

std::vector<NodeTimes> random_times(size_t nodes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<NodeTimes> times(nodes);
  for (NodeTimes& node : times)
    for (const auto part : {&NodeTimes::forward, &NodeTimes::backward, &NodeTimes::input_gradient, &NodeTimes::weight_gradient,
                            &NodeTimes::recompute, &NodeTimes::step})
      node.*part = std::uniform_int_distribution(1, 40)(random) / 8.0;
  return times;
}

double seconds_by(const TinyModel& model, Plan plan, std::vector<NodeTimes> times) {
  plan.times = {std::move(times)};
  return predict(model.graph, plan, optimizer_with_averages(), kSamples, {}).step_seconds;
}

TEST(MeasuredTimes, PredictTheStepsThatTheyWereMeasuredIn) {
  const TinyModel model = tiny_language_model(kSamples);
  const size_t nodes = model.graph.nodes().size();
  for (const Way& way :
       {Way{"cpu:0"}, Way{"cpu:0,cpu:1"}, Way{"cpu:0,cpu:1,cpu:2", NamedSchedule::zb_h1}, Way{"cpu:0,cpu:1", NamedSchedule::zb_v},
        Way{"cpu:0,cpu:1", NamedSchedule::gpipe, Remat::full}, Way{.devices = "4x cpu", .replicas = 2},
        Way{.devices = "4x cpu", .replicas = 2, .shards_optimizer = false}, Way{.devices = "2x cpu", .replicas = 2}}) {
    Plan plan = plan_of(model, devices(way.devices), way);
    plan.times = {random_times(nodes, 1)};
    const Prediction step = predict(model.graph, plan, optimizer_with_averages(), kSamples, {});
    const auto measured = measured_times(plan, {random_times(nodes, 2)}, times_of_usual({step.trace, step.trace, step.trace}));
    EXPECT_NEAR(seconds_by(model, plan, measured[0]) / step.step_seconds, 1, 1e-9) << way.devices << ", " << name_of(plan.schedule);
    EXPECT_GT(std::abs(seconds_by(model, plan, random_times(nodes, 2)) / step.step_seconds - 1), 1e-3);
    // What the steps have not shown is scaled like what they have.
    for (const NodeTimes& node : measured[0])
      for (const auto part : {&NodeTimes::backward, &NodeTimes::input_gradient, &NodeTimes::weight_gradient, &NodeTimes::recompute})
        EXPECT_GT(node.*part, 0);
  }
}

TEST(MeasuredTimes, LeaveOutTheFastestAndTheSlowestSteps) {
  const TinyModel model = tiny_classifier(kSamples);
  Plan plan = plan_of(model, devices("cpu:0,cpu:1"), {"cpu:0,cpu:1"});
  const auto trace_of = [&](unsigned seed, double factor) {
    plan.times = {random_times(model.graph.nodes().size(), seed)};
    Trace trace = predict(model.graph, plan, optimizer_with_averages(), kSamples, {}).trace;
    for (auto& event : trace.events) event.start *= factor, event.end *= factor;
    trace.seconds *= factor;
    return trace;
  };
  const Trace usual = trace_of(1, 1), disturbed = trace_of(1, 100), lucky = trace_of(1, 0.01);
  const StepTimes times = times_of_usual({disturbed, usual, lucky, usual});
  EXPECT_DOUBLE_EQ(times.mean(0, ActionKind::forward), times_of_usual({usual}).mean(0, ActionKind::forward));
  EXPECT_DOUBLE_EQ(times.mean_end(1), times_of_usual({usual}).mean_end(1));
}

TEST(MeasuredTimes, AreSharedEvenlyWhereNothingWasCounted) {
  const TinyModel model = tiny_classifier(kSamples);
  const size_t nodes = model.graph.nodes().size();
  Plan plan = plan_of(model, devices("cpu:0"), {"cpu:0"});
  plan.times = {random_times(nodes, 1)};
  const Prediction step = predict(model.graph, plan, optimizer_with_averages(), kSamples, {});
  const auto measured = measured_times(plan, {std::vector<NodeTimes>(nodes)}, times_of_usual({step.trace}))[0];
  EXPECT_NEAR(seconds_by(model, plan, measured), step.step_seconds, 1e-9 * step.step_seconds);
  for (const NodeTimes& node : measured) EXPECT_DOUBLE_EQ(node.forward, measured[0].forward);
}

/// Each replica has a device of a kind of its own.
TEST(MeasuredTimes, OfReplicasCorrectEveryKindOfDevice) {
  Device::Options slow;
  slow.speed.flops_per_second = 1e9;
  Plan plan;
  plan.devices = {make_device("meta:0"), make_device("meta:1", slow), make_device("meta:2")};
  plan.partition = Partition{{1}};
  plan.micro_batches = 3;
  plan.rematerialize = {false};
  plan.replication = {3, 3};
  Trace trace;
  for (const int replica : {0, 1, 2}) {
    TraceEvent& event = trace.events.emplace_back();
    event.device = event.action.stage = event.action.micro_batch = replica;
    event.action.kind = ActionKind::forward;
    event.end = replica == 1 ? 7 : 2 + replica;
  }
  const auto times = measured_times(plan, {{NodeTimes{.forward = 1}}, {NodeTimes{.forward = 1}}}, times_of_usual({trace}));
  EXPECT_DOUBLE_EQ(times[0][0].forward, 3) << "the mean of both replicas";
  EXPECT_DOUBLE_EQ(times[1][0].forward, 7);
}

/// What must not depend on the plan.
struct Outcome {
  std::vector<double> losses;
  std::string hash;
  std::map<std::string, std::vector<double>> averages;
  bool operator==(const Outcome&) const = default;
};

/// Steps, each followed by an evaluation; `before(step)` comes before each.
Outcome train(const TinyModel& model, Trainer& trainer, const std::function<void(uint64_t)>& before) {
  Outcome outcome;
  for (uint64_t step = 1; step <= 4; ++step) {
    before(step);
    outcome.losses.push_back(trainer.step(model.batch(step)).loss);
    outcome.losses.push_back(trainer.evaluate(model.batch(77)).loss_sum);
  }
  outcome.hash = trainer.weights_hash();
  for (const auto& [name, tensor] : trainer.averages()) outcome.averages[name] = tensor.to_vector();
  return outcome;
}

void expect_moves_keep_the_answer(const TinyModel& model, Precision precision) {
  const TrainerOptions options{.seed = 3, .clip = 0.5, .stochastic_rounding = precision == Precision::bf16};
  const Way first{.devices = "cpu:0,cpu:1", .precision = precision};
  Trainer still(model.graph, plan_of(model, devices(first.devices), first), optimizer_with_averages(), options);
  const Outcome expected = train(model, still, [](uint64_t) {});
  Trainer moving(model.graph, plan_of(model, devices(first.devices), first), optimizer_with_averages(), options);
  const std::map<uint64_t, Way> ways{{2, {"cpu:0,cpu:1,cpu:2", NamedSchedule::gpipe, Remat::full, 4, precision}},
                                     {4, {"cpu:0,cpu:1", NamedSchedule::zb_v, Remat::none, 4, precision}}};
  const Outcome moved = train(model, moving, [&](uint64_t step) {
    const auto way = ways.find(step);
    if (way != ways.end()) moving.move_to(plan_of(model, devices(way->second.devices), way->second));
  });
  EXPECT_EQ(moving.plan().partition.stage_count(), 4);
  EXPECT_EQ(moved, expected) << name_of(precision);
}

TEST(MovedTraining, GivesTheSameBits) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)})
    for (const Precision precision : {Precision::f32, Precision::bf16}) expect_moves_keep_the_answer(model, precision);
}

/// Peak bytes of a step of the language model by two plans on two devices, whose heavier stage is another.
struct TwoPlans {
  TinyModel model = tiny_language_model(kSamples);
  std::vector<DevicePtr> two = devices("cpu:0,cpu:1");
  int nodes = static_cast<int>(model.graph.nodes().size());
  Plan early = plan_of(model, two, {"cpu:0,cpu:1"}, Partition{{3, nodes - 3}});
  Plan late = plan_of(model, two, {"cpu:0,cpu:1"}, Partition{{nodes - 3, 3}});

  std::vector<int64_t> peaks(const Plan& plan) const {
    std::vector<int64_t> bytes;
    for (const auto& device : predict(model.graph, plan, optimizer_with_averages(), kSamples, {}).devices)
      bytes.push_back(device.peak_bytes);
    return bytes;
  }
};

TEST(MovedTraining, KeepsToBudgetsThatHoldEachPlanAlone) {
  const TwoPlans plans;
  const auto early = plans.peaks(plans.early), late = plans.peaks(plans.late);
  for (size_t device = 0; device < 2; ++device) plans.two[device]->set_budget_bytes(std::max(early[device], late[device]));
  Trainer trainer(plans.model.graph, plans.early, optimizer_with_averages());
  trainer.step(plans.model.batch(1));
  for (const auto* plan : {&plans.late, &plans.early, &plans.late}) {
    trainer.move_to(*plan);
    for (const auto& device : plans.two) device->reset_peak();
    trainer.step(plans.model.batch(2));
    for (size_t device = 0; device < 2; ++device) EXPECT_EQ(plans.two[device]->peak_bytes(), plans.peaks(*plan)[device]);
  }
}

TEST(MovedTraining, GoesOnByItsFormerPlanWhereTheOtherOneHasNoRoom) {
  const TwoPlans plans, same;
  Trainer trainer(plans.model.graph, plans.early, optimizer_with_averages()),
      still(same.model.graph, same.early, optimizer_with_averages());
  trainer.step(plans.model.batch(1));
  still.step(plans.model.batch(1));
  const auto needed = predict(plans.model.graph, plans.late, optimizer_with_averages(), kSamples, {}).devices[0];
  plans.two[0]->set_budget_bytes(needed.parameter_bytes + needed.optimizer_bytes - 1);
  expect_error<OutOfMemory>([&] { trainer.move_to(plans.late); }, {"cpu:0", "budget"});
  plans.two[0]->set_budget_bytes(kUnlimited);
  EXPECT_EQ(trainer.plan().partition.stage_sizes(), plans.early.partition.stage_sizes());
  trainer.step(plans.model.batch(2));
  still.step(plans.model.batch(2));
  EXPECT_EQ(trainer.weights_hash(), still.weights_hash());
}

TEST(MovedTraining, RefusesPlansThatWouldChangeTheAnswer) {
  const TwoPlans plans;
  Trainer trainer(plans.model.graph, plans.early, optimizer_with_averages());
  const auto plan_by = [&](const Way& way) { return plan_of(plans.model, devices(way.devices), way); };
  const auto expect_refused = [&](const Plan& plan, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { trainer.move_to(plan); }, words);
    EXPECT_NO_THROW(trainer.step(plans.model.batch(1)));
  };
  expect_refused(plan_by({.devices = "cpu:0,cpu:1", .micro_batches = 2}), {"Trainer::move_to", "4 micro-batches", "got 2"});
  expect_refused(plan_by({.devices = "cpu:0,cpu:1", .precision = Precision::bf16}), {"Trainer::move_to", "f32", "got bf16"});
  expect_refused(plan_by({.devices = "2x meta"}), {"Trainer::move_to", "meta:0"});
  Plan wrong = plans.late;
  wrong.partition = Partition{{1, 1}};
  expect_refused(wrong, {"Plan::partition"});
}

/// Long beside what all else takes, also on a busy machine.
constexpr std::chrono::milliseconds kSlow(5);

/// Takes long for what it counts.
class Slow : public sluice::testing::Sum {
 public:
  Var forward(const layers::Call& call) const override {
    using Clock = std::chrono::steady_clock;
    const bool only_counts = call.inputs[0].value().device().kind() == DeviceKind::meta;
    for (const auto end = Clock::now() + (only_counts ? kSlow * 0 : kSlow); Clock::now() < end;) continue;
    return Sum::forward(call);
  }
};

/// Equal layers by what is counted; the first four take much longer.
TinyModel misleading_model() {
  layers::Graph graph;
  auto x = graph.input("x", {8});
  const auto label = graph.input("label", {}, DType::i32);
  for (int i = 0; i < 8; ++i) {
    x = graph.add(join("layer", i), layers::Linear(8, 8), x);
    x = i < 4 ? graph.add(join("join", i), Slow(), x) : graph.add(join("join", i), sluice::testing::Sum(), x);
  }
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return {graph, [](uint64_t seed) {
            Tensor images = empty({kSamples, 8});
            fill_uniform(images, -1, 1, random_key(seed, "x"));
            return batch_of({{"x", images}, {"label", sluice::testing::random_tokens({kSamples}, 8, seed)}});
          }};
}

constexpr int kUntilFound = Replanner::kWarmUp + Replanner::kMeasured;

/// Trains on and returns what was found.
std::vector<Replanner::Finding> train_on(const TinyModel& model, Trainer& trainer, Replanner& replanner, int64_t until) {
  std::vector<Replanner::Finding> findings;
  while (trainer.steps_done() < until) {
    trainer.step(model.batch(static_cast<uint64_t>(trainer.steps_done())));
    if (auto finding = replanner.note_step(trainer)) findings.push_back(std::move(*finding));
  }
  return findings;
}

/// On two devices, cut by counted times.
std::unique_ptr<Trainer> misled_trainer(const TinyModel& model) {
  return std::make_unique<Trainer>(model.graph, plan_of(model, devices("cpu:0,cpu:1"), {"cpu:0,cpu:1"}, kOpen), optimizer_with_averages());
}

TEST(Replanner, MovesOnceToTheCutThatMeasuredTimesAskForWithTheSameBits) {
  const TinyModel model = misleading_model();
  const auto still = misled_trainer(model), moving = misled_trainer(model);
  Replanner looks(options_of({"cpu:0,cpu:1"}), {}, false), moves(options_of({"cpu:0,cpu:1"}), {}, true);
  constexpr int64_t kSteps = 2 * kUntilFound + 4;
  const auto seen = train_on(model, *still, looks, kSteps), found = train_on(model, *moving, moves, kSteps);

  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].next);
  // Four micro-batches through the slow nodes of the first device, of which disturbed steps may hide a little.
  const int slow = std::min(4, still->plan().partition.stage_sizes()[0] / 2);
  ASSERT_GE(slow, 3) << "counted times are to mislead";
  EXPECT_GT(seen[0].prediction.step_seconds, 0.9 * 4 * slow * std::chrono::duration<double>(kSlow).count());
  ASSERT_EQ(found.size(), 2U);
  ASSERT_TRUE(found[0].next);
  EXPECT_FALSE(found[1].next);
  EXPECT_LE(found[0].next->step_seconds, found[0].prediction.step_seconds * (1 - Replanner::kWorthMoving));
  EXPECT_EQ(found[0].stage_sizes, still->plan().partition.stage_sizes());
  EXPECT_LT(moving->plan().partition.stage_sizes()[0], still->plan().partition.stage_sizes()[0]);
  EXPECT_EQ(moving->plan().micro_batches, still->plan().micro_batches);
  EXPECT_EQ(moving->weights_hash(), still->weights_hash());
}

TEST(Replanner, LeavesATrainingThatACheckpointContinuesWithTheSameBits) {
  const TinyModel model = misleading_model();
  const auto whole = misled_trainer(model), first = misled_trainer(model), second = misled_trainer(model);
  Replanner looks(options_of({"cpu:0,cpu:1"}), {}, false), moves(options_of({"cpu:0,cpu:1"}), {}, true), again = moves;
  train_on(model, *whole, looks, 2 * kUntilFound + 2);
  ASSERT_TRUE(train_on(model, *first, moves, kUntilFound + 1).at(0).next);

  const TemporaryFolder folder;
  restore(open_checkpoint(OutputFolder(folder.path() / "run").save(*first, "", {}, 1)), *second);
  ASSERT_TRUE(train_on(model, *second, again, 2 * kUntilFound + 2).at(0).next);
  EXPECT_EQ(second->weights_hash(), whole->weights_hash());
}

/// As of sentences, whose longest mini-batches are larger than the declared one.
TEST(Replanner, StaysWhereAnotherPlanHasNoRoomForAllShapes) {
  const TinyModel model = misleading_model();
  for (const bool is_tight : {false, true}) {
    const auto trainer = misled_trainer(model);
    const BatchShape larger = declared_shape(model.graph, 500 * kSamples);
    const auto peaks = peak_bytes_of_steps(model.graph, trainer->plan(), trainer->optimizer(), {larger});
    const int64_t most = std::ranges::max(peaks);
    for (const auto& device : trainer->plan().devices) device->set_budget_bytes(is_tight ? most / 4 : 4 * most);
    Replanner replanner(options_of({"cpu:0,cpu:1"}), {}, true);
    replanner.require_room_for({larger});
    EXPECT_EQ(train_on(model, *trainer, replanner, kUntilFound).at(0).next.has_value(), !is_tight);
  }
}

TEST(Replanner, KeepsToWhatIsFixedAndToBudgets) {
  const TinyModel model = misleading_model();
  for (const bool by_budget : {false, true}) {
    const auto trainer = misled_trainer(model);
    PlanOptions options = options_of({"cpu:0,cpu:1"});
    const Plan plan = trainer->plan();
    if (!by_budget) options.partition = Partition{plan.partition.stage_sizes()};
    const auto needed = predict(model.graph, plan, trainer->optimizer(), kSamples, {});
    for (size_t i = 0; by_budget && i < 2; ++i) plan.devices[i]->set_budget_bytes(needed.devices[i].peak_bytes);
    Replanner replanner(options, {}, true);
    const auto found = train_on(model, *trainer, replanner, kUntilFound + 2);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_FALSE(found[0].next);
    EXPECT_EQ(trainer->plan().partition.stage_sizes(), plan.partition.stage_sizes());
  }
}

}  // namespace
}  // namespace sluice::parallel
