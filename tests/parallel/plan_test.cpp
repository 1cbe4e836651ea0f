#include "parallel/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <type_traits>

#include "models/amoebanet.h"
#include "parallel/plan/advice.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/schedule/csv.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::shuffled_schedule;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

std::vector<DevicePtr> three() { return devices("cpu:0,cpu:1,cpu:2"); }

// By itself none of them becomes a number of micro-batches: 2^32 + 1 would be 1, and 2.5 would be 2.
static_assert(std::is_convertible_v<int, CountChoice>);
static_assert(!std::is_convertible_v<int64_t, CountChoice> && !std::is_convertible_v<double, CountChoice> &&
              !std::is_convertible_v<bool, CountChoice>);

TEST(Plan, RefusesWhatCannotBeWithTheCure) {
  const auto graph = skip_graph();
  expect_error<UsageError>([&] { plan(graph, devices("20x meta"), {.batch = 4}); }, {"20 devices for 12 nodes", "use fewer devices"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .micro_batches = 5}); }, {"from 1 to the 4 samples"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .schedule = schedule_named("1f2b")}); }, {"1f1b"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .partition = Partition{{5, 5}}}); }, {"2 numbers for 3 stages"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .remat = RematNodes{{"stam"}}}); }, {"did you mean 'stem'?"});
}

TEST(Plan, NeedsShapesToCount) {
  layers::Graph graph;
  const auto x = graph.input("x");
  graph.loss(graph.add("loss", testing::Sum(), {graph.add("a", layers::Linear(3, 1), x)}));
  expect_error<UsageError>([&] { predict(graph, plan(graph, devices("cpu:0"), {.batch = 4}), AdamW({.lr = 1e-2}), 4, {}); },
                           {"sample shape of input 'x'"});
}

TEST(Plan, RefusesParametersThatTheLossDoesNotSee) {
  layers::Graph graph;
  const auto x = graph.input("x", {3}), label = graph.input("label", {}, DType::i32);
  graph.add("lost", layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("a", layers::Linear(3, 3), x), label}));
  expect_error<UsageError>([&] { topology_of(graph); }, {"node 'lost'", "does not depend on it"});
}

TEST(Plan, AutoBalancesMeasuredOperations) {
  auto options = tiny_transformer_options();
  options.layers = 6;
  const auto graph = models::transformer_lm(options);
  std::vector<double> costs;
  for (const auto& node : counted_nodes(graph, 2, {}, Precision::f32, AdamW({}))) costs.push_back(node.forward + node.backward);
  const auto chosen = plan(graph, three(), {.batch = 8, .micro_batches = 4, .partition = kOpen});
  EXPECT_LE(bottleneck(chosen.partition.segments(), costs), bottleneck(partition_uniform(static_cast<int>(costs.size()), 3), costs));
}

/// Over a slow link an order with both ends of the model on one device wins by the ways that gradients and weights of the tied embedding need
/// not take.
TEST(Plan, AutoHeedsTheWaysOfTiedWeights) {
  auto options = tiny_transformer_options();
  options.layers = 4;
  options.vocab = 2000;
  const auto graph = models::transformer_lm(options);
  std::vector<DevicePtr> slow;
  for (int i = 0; i < 2; ++i)
    slow.push_back(std::make_shared<Device>(DeviceKind::meta, i, Device::Options{.speed = {1e11, 1e11, 1e8, 1e-6}}));
  const auto seconds = [&](const ScheduleChoice& schedule) {
    const Plan chosen = plan(graph, slow, {.batch = 8, .micro_batches = 4, .schedule = schedule});
    return predict(graph, chosen, AdamW({}), 8, slow[0]->options().speed).step_seconds;
  };
  EXPECT_LT(seconds(NamedSchedule::zb_v), 0.9 * seconds(NamedSchedule::zb_h1));
  EXPECT_LE(seconds(kOpen), 1.01 * seconds(NamedSchedule::zb_v));
}

/// What the search takes tied parameters to take on the wire is what the executor sends.
TEST(Plan, TakesForTiedParametersWhatIsSent) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const AdamW optimizer({});
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Plan chosen = plan(graph, devices("2x meta"), {.batch = 8, .micro_batches = 4, .precision = precision});
    const ModelCost model = model_bytes(graph, 2, precision, DeviceKind::cpu, optimizer);
    std::map<Payload, double> sent;
    for (const TraceEvent& event : predict(graph, chosen, optimizer, 8, {}).trace.events)
      if (event.action.kind == ActionKind::send) sent[event.action.transfer.payload] += static_cast<double>(event.action.bytes);
    ASSERT_EQ(model.tied_wire.size(), 1);
    EXPECT_EQ(sent[Payload::tied_gradient], model.tied_wire[0].gradient);
    EXPECT_EQ(sent[Payload::tied_weight], model.tied_wire[0].weight);
  }
}

/// Inputs of floats once kept their costs to the device that they were loaded on, so that all of an image model's nodes were free.
TEST(Plan, CountsTheCostOfNodesThatReadImages) {
  const auto graph = models::amoebanet({.layers = 3, .filters = 16, .classes = 4, .image_size = 32});
  const auto costs = counted_nodes(graph, 2, {}, Precision::f32, AdamW({}));
  for (size_t node = 0; node < costs.size(); ++node) EXPECT_GT(costs[node].forward, 0) << graph.nodes()[node].name;
}

TEST(Prediction, CountsParametersGradientsAndStates) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const Prediction prediction = predict(graph, plan(graph, devices("cpu:0"), {.batch = 8, .micro_batches = 2}), AdamW({.lr = 1e-2}), 8, {});
  const auto& device = prediction.devices.at(0);
  int64_t bytes = 0;
  for (const auto& parameter : graph.parameters()) bytes += Device::charged_size(4 * parameter.spec.shape.elements());
  EXPECT_EQ(device.parameter_bytes, bytes);
  EXPECT_EQ(device.gradient_bytes, bytes);
  EXPECT_EQ(device.optimizer_bytes, 2 * bytes);
  EXPECT_EQ(device.peak_bytes, device.parameter_bytes + device.gradient_bytes + device.optimizer_bytes + device.activation_peak_bytes);
  EXPECT_GT(device.activation_peak_bytes, 0);
}

TEST(Prediction, InBf16CountsMastersAndCopiesAndSmallerActivations) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const auto predicted = [&](Precision precision) {
    return predict(graph, plan(graph, devices("cpu:0"), {.batch = 8, .precision = precision}), AdamW({.lr = 1e-2}), 8, {}).devices.at(0);
  };
  const auto single = predicted(Precision::f32), half = predicted(Precision::bf16);
  int64_t copies = 0;
  for (const auto& parameter : graph.parameters()) copies += Device::charged_size(2 * parameter.spec.shape.elements());
  EXPECT_EQ(half.parameter_bytes, single.parameter_bytes + copies);
  EXPECT_EQ(half.gradient_bytes, single.gradient_bytes);
  EXPECT_EQ(half.optimizer_bytes, single.optimizer_bytes);
  EXPECT_LT(half.activation_peak_bytes, 0.7 * static_cast<double>(single.activation_peak_bytes));
}

TEST(Prediction, OfRematerializationIsSmallerAndSlower) {
  auto options = tiny_transformer_options();
  options.layers = 8;
  const auto graph = models::transformer_lm(options);
  const auto predicted = [&](Remat remat) {
    const PlanOptions planned{.batch = 32, .micro_batches = 8, .schedule = NamedSchedule::gpipe, .remat = remat};
    return predict(graph, plan(graph, devices("cpu:0,cpu:1"), planned), AdamW({.lr = 1e-2}), 32, {});
  };
  const Prediction none = predicted(Remat::none), full = predicted(Remat::full);
  EXPECT_LT(full.devices[0].activation_peak_bytes, 0.5 * static_cast<double>(none.devices[0].activation_peak_bytes));
  EXPECT_GT(full.step_seconds, none.step_seconds);
  EXPECT_GT(full.flops, none.flops);
}

TEST(Prediction, HasTheBubbleOfTheFormula) {
  layers::Graph graph;
  auto x = graph.input("image", {64});
  const auto label = graph.input("label", {}, DType::i32);
  for (int i = 0; i < 4; ++i) x = graph.add("layer" + std::to_string(i), layers::Linear(64, 64), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  const Plan chosen = plan(graph, devices("4x meta"), {.batch = 64, .micro_batches = 8, .partition = Partition{{1, 1, 1, 2}}});
  const DeviceSpeed fast_links{1e9, 1e15, 1e15, 0};
  const double bubble = predict(graph, chosen, SGD({.lr = 0.1}), 64, fast_links).bubble;
  EXPECT_NEAR(bubble, 3.0 / 11.0, 0.08) << "(K-1)/(M+K-1); the first stage computes no input gradient, the last one has the loss";
}

TEST(Prediction, ReckonsWithActionsThatTakeLongerOnCrowdedDevices) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const auto seconds = [&](double crowding, double bytes) {
    PlanOptions options{.batch = 8, .micro_batches = 2};
    options.times = [&](int64_t, const DevicePtr&) {
      return std::vector<NodeTimes>(graph.nodes().size(), {.forward = 1, .backward = 2, .crowding = crowding, .crowding_bytes = bytes});
    };
    return predict(graph, plan(graph, devices("cpu:0"), options), AdamW({.lr = 1e-2}), 8, {}).step_seconds;
  };
  const double roomy = seconds(0, 1);
  EXPECT_NEAR(roomy, 2.0 * 3 * static_cast<double>(graph.nodes().size()), 1e-6 * roomy);
  EXPECT_NEAR(seconds(0.25, 1), 1.25 * roomy, 1e-9 * roomy) << "the device holds more than two bytes";
  EXPECT_EQ(seconds(0.25, 1e15), roomy);
}

// Plans with open choices, run.

const Adam kOptimizer({.lr = 1e-2});
constexpr int64_t kSamples = 32;

/// Deep enough for four devices with several stages each, and more activations than parameters.
models::TransformerOptions deep_options() {
  auto options = tiny_transformer_options();
  options.layers = 6;
  return options;
}

std::vector<DevicePtr> cpus(int count) {
  std::vector<DevicePtr> result;
  for (int i = 0; i < count; ++i) result.push_back(make_device("cpu:" + std::to_string(i)));
  return result;
}

PlanOptions open_options(ScheduleChoice schedule, RematChoice remat, int64_t memory = kUnlimited) {
  return {.batch = kSamples,
          .micro_batches = 4,
          .schedule = std::move(schedule),
          .remat = std::move(remat),
          .memory = memory,
          .optimizer = &kOptimizer};
}

int64_t largest_peak(const layers::Graph& graph, const Plan& plan, int64_t batch = kSamples) {
  int64_t largest = 0;
  for (const auto& device : predict(graph, plan, kOptimizer, batch, {}).devices) largest = std::max(largest, device.peak_bytes);
  return largest;
}

/// The hash after two steps. Expects the plan to fit, and every device to need exactly the bytes predicted.
std::string trained(const layers::Graph& graph, const Plan& plan, std::vector<int> micro_batches = {0, 0}) {
  const Prediction prediction = predict(graph, plan, kOptimizer, kSamples, {});
  EXPECT_TRUE(prediction.fits) << prediction.reason;
  if (!prediction.fits) return prediction.reason;
  Trainer trainer(graph, plan, kOptimizer, {.seed = 3, .clip = 0.5});
  for (size_t step = 0; step < micro_batches.size(); ++step) {
    trainer.step(token_batch(deep_options(), kSamples, step), micro_batches[step]);
    if (step > 0) continue;
    for (size_t i = 0; i < plan.devices.size(); ++i) EXPECT_EQ(plan.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes) << i;
  }
  return trainer.weights_hash();
}

TEST(OpenPlan, OfEverySchedulePlacementAndRematerializationTrainsToOneAnswerInItsPredictedBytes) {
  const auto batch = [](uint64_t seed) { return token_batch(deep_options(), 8, seed); };
  sluice::testing::expect_one_answer_of_every_schedule(models::transformer_lm(deep_options()), batch);
}

TEST(OpenPlan, RecomputesInSegmentsWhereStagesAreTooLargeAndKeepsTheAnswer) {
  const auto graph = models::transformer_lm(deep_options());
  const std::string answer =
      trained(graph, plan(graph, cpus(1), {.batch = kSamples, .micro_batches = 4, .schedule = NamedSchedule::gpipe}));
  for (const int count : {1, 2})
    for (const ScheduleChoice& schedule : {ScheduleChoice(NamedSchedule::gpipe), {NamedSchedule::one_f_one_b}, {kOpen}}) {
      const int64_t full = largest_peak(graph, plan(graph, cpus(count), open_options(schedule, Remat::full)));
      const Plan chosen = plan(graph, cpus(count), open_options(schedule, kOpen, full * 9 / 10));
      SCOPED_TRACE(join(count, " devices, ", name_of(chosen.schedule)));
      EXPECT_FALSE(chosen.partition.has_whole_stages()) << "all of it rematerialized in whole stages needs more";
      EXPECT_EQ(trained(graph, chosen), answer);
    }
}

TEST(OpenPlan, RematerializesNoMoreThanItsBudgetAsksFor) {
  const auto graph = models::transformer_lm(deep_options());
  const auto recomputed = [&](const Plan& plan) {
    double seconds = 0;
    for (const auto& event : predict(graph, plan, kOptimizer, kSamples, {}).trace.events)
      if (event.action.kind == ActionKind::recompute) seconds += event.end - event.start;
    return seconds;
  };
  for (const int count : {1, 2}) {
    const int64_t none = largest_peak(graph, plan(graph, cpus(count), open_options(NamedSchedule::one_f_one_b, Remat::none)));
    const double full = recomputed(plan(graph, cpus(count), open_options(NamedSchedule::one_f_one_b, Remat::full)));
    double before = 0;
    for (const int percent : {100, 90, 80, 70}) {
      SCOPED_TRACE(join(count, " devices, ", percent, " % of ", none, " bytes"));
      const Plan chosen = plan(graph, cpus(count), open_options(NamedSchedule::one_f_one_b, kOpen, none * percent / 100));
      trained(graph, chosen);
      const double seconds = recomputed(chosen);
      EXPECT_EQ(seconds > 0, percent < 100);
      EXPECT_LE(seconds, full);
      EXPECT_GE(seconds, 0.9 * before) << "less room, less to keep";
      before = seconds;
    }
  }
}

TEST(OpenPlan, OfAScheduleFromATableHasTheSameAnswer) {
  const auto graph = models::transformer_lm(deep_options());
  const std::string answer = trained(graph, plan(graph, cpus(1), open_options(NamedSchedule::gpipe, Remat::none)));
  for (const unsigned seed : {1u, 2u, 3u})
    for (const RematChoice& remat : {RematChoice(Remat::none), {Remat::full}, {kOpen}}) {
      SCOPED_TRACE(join("seed ", seed, ", remat choice ", sluice::testing::text_of(remat)));
      const Schedule table = parse_schedule_csv(schedule_csv(shuffled_schedule(2, 4, 4, seed)), "mine.csv");
      const Plan chosen = plan(graph, cpus(2), open_options(table, remat));
      EXPECT_EQ(name_of(chosen.schedule), "mine.csv");
      EXPECT_EQ(trained(graph, chosen), answer);
    }
}

TEST(OpenPlan, TakesAnotherNumberOfMicroBatchesAtAStepUnlessItsScheduleIsATable) {
  const auto graph = models::transformer_lm(deep_options());
  const std::string answer = trained(graph, plan(graph, cpus(1), open_options(NamedSchedule::gpipe, Remat::none)), {0, 7, 2});
  const int64_t full = largest_peak(graph, plan(graph, cpus(2), open_options(kOpen, Remat::full)));
  const Plan open = plan(graph, cpus(2), open_options(kOpen, kOpen, full * 9 / 10));
  for (const auto& device : open.devices) device->set_budget_bytes(kUnlimited);  // two micro-batches are larger than four
  EXPECT_EQ(trained(graph, open, {0, 7, 2}), answer);
  Schedule table = shuffled_schedule(2, 4, 4, 1);
  table.name = "mine.csv";
  Trainer fixed(graph, plan(graph, cpus(2), open_options(table, Remat::none)), kOptimizer);
  fixed.step(token_batch(deep_options(), kSamples, 0));
  expect_error<UsageError>([&] { fixed.step(token_batch(deep_options(), kSamples, 0), 7); },
                           {"'mine.csv' is for 4 micro-batches", "mini-batch of 7", "schedule by name"});
}

/// One change that the advice names, on top of what was planned: "3 devices and PlanOptions::remat=kOpen".
std::pair<PlanOptions, int> with_change(PlanOptions options, int count, const std::string& change) {
  std::smatch found;
  if (std::regex_search(change, found, std::regex("(\\d+) devices"))) count = std::stoi(found[1]);
  if (std::regex_search(change, found, std::regex("PlanOptions::batch=(\\d+)"))) options.batch = std::stoll(found[1]);
  if (std::regex_search(change, found, std::regex("micro_batches=(\\d+)"))) options.micro_batches = std::stoi(found[1]);
  if (change.find("PlanOptions::micro_batches=kOpen") != std::string::npos) options.micro_batches = kOpen;
  if (change.find("PlanOptions::remat=kOpen") != std::string::npos) options.remat = kOpen;
  if (change.find("PlanOptions::partition=kOpen") != std::string::npos) options.partition = kOpen;
  return {options, count};
}

/// Whoever follows one of them trains.
void expect_advice_that_fits(const layers::Graph& graph, const PlanOptions& options) {
  const std::string advice = nearest_that_fits(graph, plan(graph, cpus(2), options).devices, options);
  ASSERT_TRUE(advice.starts_with("it fits with ")) << advice;
  for (size_t at = 13; at < advice.size();) {
    const size_t end = std::min(advice.find(", or with ", at), advice.size());
    const std::string change = advice.substr(at, end - at);
    const auto [changed, count] = with_change(options, 2, change);
    const Prediction prediction = predict(graph, plan(graph, cpus(count), changed), kOptimizer, changed.batch, {});
    EXPECT_TRUE(prediction.fits) << change << ": " << prediction.reason;
    at = end + 10;
  }
}

TEST(OpenPlan, OfOneDeviceHasTheStagesOfAGivenPartition) {
  const auto graph = models::transformer_lm(deep_options());
  const int nodes = static_cast<int>(graph.nodes().size());
  PlanOptions options{.batch = 4, .micro_batches = 2, .partition = Partition{{2, nodes - 2}}};
  for (const CountChoice virtual_stages : {CountChoice(2), CountChoice(kOpen)}) {
    options.schedule = ScheduleChoice(kOpen, virtual_stages);
    EXPECT_EQ(plan(graph, cpus(1), options).partition.stage_sizes(), (std::vector{2, nodes - 2}));
  }
  options.schedule = ScheduleChoice(kOpen, 1);
  expect_error<UsageError>([&] { plan(graph, cpus(1), options); }, {"2 numbers for 1 stages"});
}

TEST(OpenPlan, TheAdviceNamesAGivenPartitionAndMicroBatches) {
  const auto graph = models::transformer_lm(deep_options());
  const int nodes = static_cast<int>(graph.nodes().size());
  const int64_t full = largest_peak(graph, plan(graph, cpus(2), open_options(NamedSchedule::gpipe, Remat::full)));
  for (const int percent : {120, 95, 75, 55, 40})
    for (const int micro_batches : {2, 8})
      for (const int first : {0, nodes - 1}) {
        SCOPED_TRACE(join(percent, " %, ", micro_batches, " micro-batches, first stage of ", first, " nodes"));
        PlanOptions options = open_options(NamedSchedule::gpipe, Remat::none, full * percent / 100);
        options.micro_batches = micro_batches;
        if (first > 0) options.partition = Partition{{first, nodes - first}};
        if (!predict(graph, plan(graph, cpus(2), options), kOptimizer, kSamples, {}).fits) expect_advice_that_fits(graph, options);
      }
}

TEST(OpenPlan, UnderAnImpossibleBudgetSaysWhatIsShortAndTheAdviceFits) {
  const auto graph = models::transformer_lm(deep_options());
  const int64_t full = largest_peak(graph, plan(graph, cpus(2), open_options(NamedSchedule::one_f_one_b, Remat::full)));
  for (const int percent : {95, 75, 55, 40}) {
    PlanOptions options = open_options(NamedSchedule::one_f_one_b, Remat::none, full * percent / 100);
    options.micro_batches = 1;
    const auto devices = cpus(2);
    const Prediction refused = predict(graph, plan(graph, devices, options), kOptimizer, kSamples, {});
    ASSERT_FALSE(refused.fits);
    int short_devices = 0;
    for (const auto& device : refused.devices) {
      const bool is_short = device.peak_bytes > device.budget_bytes;
      const std::string lack =
          join(device.name, " needs ", device.peak_bytes, " bytes in all and lacks ", device.peak_bytes - device.budget_bytes);
      EXPECT_EQ(refused.reason.find(lack) != std::string::npos, is_short) << refused.reason;
      short_devices += is_short;
    }
    EXPECT_GE(short_devices, 1);
    expect_advice_that_fits(graph, options);
  }
}

}  // namespace
}  // namespace sluice::parallel
