#include <gtest/gtest.h>

#include <functional>

#include "cli/config_words.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/plan/advice.h"
#include "parallel/schedule/named.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"

namespace sluice::parallel {
namespace {

/// Fails with the numbers of samples that micro-batches have here, and not with that with which graphs are built.
class SamplesByThrees : public layers::Module {
 public:
  Var forward(const layers::Call& call) const override {
    require(call.inputs[0].dim(0) % 3 == 0, "by_threes: needs a multiple of 3 samples, got ", call.inputs[0].dim(0));
    return call.inputs[0];
  }
};

layers::Graph chain(bool by_threes = false) {
  layers::Graph graph;
  auto x = graph.input("x", {3});
  const auto label = graph.input("label", {}, DType::i32);
  x = graph.add("first", layers::Linear(3, 3), x);
  x = by_threes ? graph.add("second", SamplesByThrees(), x) : graph.add("second", layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

TEST(PlanningErrors, NameTheNodeThatFailsOnAnyNumberOfDevices) {
  const auto wrong = chain(true);
  for (const char* names : {"cpu:0", "cpu:0,cpu:1", "3x meta"})
    for (const RematChoice& remat : {RematChoice(Remat::none), {kOpen}}) {
      SCOPED_TRACE(join(names, ", remat choice ", sluice::testing::text_of(remat)));
      const auto planned = [&] {
        const Plan chosen = plan(wrong, devices(names), {.batch = 4, .micro_batches = 2, .remat = remat});
        predict(wrong, chosen, AdamW({}), 4, {});
      };
      expect_error<UsageError>(planned, {"node 'second'", "multiple of 3"});
    }
}

/// The message of what making these options, or planning with them, throws.
std::string message_of(const std::function<PlanOptions()>& options,
                       const std::vector<DevicePtr>& devices = sluice::devices("cpu:0,cpu:1")) {
  try {
    plan(chain(), devices, options());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlanningErrors, NameTheFieldOfCppAndInTheProgramTheKey) {
  using Options = PlanOptions;
  constexpr auto kInterleaved = NamedSchedule::interleaved;
  const Schedule two = make_schedule(NamedSchedule::gpipe, 2, 2), three = make_schedule(NamedSchedule::gpipe, 3, 2);
  const std::vector<std::tuple<std::function<Options()>, std::string, std::string>> cases{
      {[] { return Options{.batch = 0}; }, "PlanOptions::batch", "train.batch"},
      {[] { return Options{.batch = 4, .micro_batches = 5}; }, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {[] { return Options{.batch = 4, .micro_batches = 0}; }, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {[] { return Options{.batch = 4, .micro_batches = -1}; }, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {[&] { return Options{.batch = 4, .micro_batches = 3, .schedule = two}; }, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {[&] { return Options{.batch = 4, .micro_batches = 2, .schedule = three}; }, "PlanOptions::schedule", "pipeline.schedule"},
      {[] { return Options{.batch = 4, .micro_batches = 2, .schedule = Schedule{}}; }, "PlanOptions::schedule", "pipeline.schedule"},
      {[] {
         return Options{.batch = 4, .schedule = {kInterleaved, 9}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] {
         return Options{.batch = 4, .schedule = {kInterleaved, INT32_MAX}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] {
         return Options{.batch = 4, .schedule = {kInterleaved, -2}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] {
         return Options{.batch = 4, .schedule = {NamedSchedule::zb_v, 3}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] {
         return Options{.batch = 4, .schedule = {NamedSchedule::one_f_one_b, 2}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] {
         return Options{.batch = 4, .schedule = {kOpen, 0}};
       },
       "ScheduleChoice::virtual_stages", "pipeline.virtual_stages"},
      {[] { return Options{.batch = 4, .partition = Partition{{3}}}; }, "PlanOptions::partition", "pipeline.partition"},
      {[] {
         return Options{.batch = 4, .partition = Partition{{3, 2}}};
       },
       "PlanOptions::partition", "pipeline.partition"},
      {[] {
         return Options{.batch = 4, .partition = Partition{{3, 0}}};
       },
       "PlanOptions::partition", "pipeline.partition"},
      {[] { return Options{.batch = 4, .remat = RematNodes{{"secnd"}}}; }, "PlanOptions::remat", "pipeline.remat"},
      {[] { return Options{.batch = 4, .memory = 0}; }, "PlanOptions::memory", "pipeline.memory"},
      {[] { return Options{.batch = 4, .search_seconds = -1}; }, "PlanOptions::search_seconds", "pipeline.search_seconds"},
  };
  for (const auto& [options, field, key] : cases) {
    const std::string message = message_of(options);
    EXPECT_EQ(message.find(field + ": "), 0) << message;
    EXPECT_EQ(message.find("pipeline."), message.npos) << message;
    EXPECT_EQ(message.find("train."), message.npos) << message;
    const std::string shown = cli::in_config_words(message);
    EXPECT_EQ(shown.find(key + ": "), 0) << shown;
    EXPECT_EQ(shown.find("Options::"), shown.npos) << shown;
  }
}

/// What is left open may have other numbers of stages; those that the cut is not for are left out.
TEST(PlanningErrors, AreNoneForACutThatSomeOfTheOpenOrdersHave) {
  layers::Graph graph;
  auto x = graph.input("x", {3});
  const auto label = graph.input("label", {}, DType::i32);
  for (int i = 0; i < 5; ++i) x = graph.add(join("linear", i), layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  for (const ScheduleChoice& schedule : {ScheduleChoice(kOpen), {NamedSchedule::interleaved, kOpen}})
    for (const Partition& cut : {Partition{{3, 3}}, Partition{{1, 2, 1, 2}}}) {
      const Plan chosen =
          plan(graph, devices("2x meta"), {.batch = 8, .micro_batches = kOpen, .schedule = schedule, .partition = cut, .remat = kOpen});
      EXPECT_EQ(chosen.partition.stage_sizes(), cut.sizes);
    }
  EXPECT_EQ(message_of([] {
              return PlanOptions{.batch = 4, .schedule = kOpen, .partition = Partition{{1, 1, 1}}};
            }).find("PlanOptions::partition: needs one number a stage, got 3 numbers for 2 stages"),
            0);
}

TEST(PlanningErrors, NameDevicesThatNoPlanCanHave) {
  const auto cpu = make_device("cpu:0");
  const auto four_samples = [] { return PlanOptions{.batch = 4}; };
  for (const std::vector<DevicePtr>& wrong : {std::vector<DevicePtr>{}, {nullptr}, {cpu, cpu}, {cpu, make_device("meta:0")}})
    EXPECT_EQ(message_of(four_samples, wrong).find("Plan::devices: "), 0) << message_of(four_samples, wrong);
  EXPECT_EQ(cli::in_config_words("Plan::devices: needs one"), "pipeline.devices: needs one");
}

TEST(PlanningErrors, AdviseInTheWordsOfTheCaller) {
  const auto graph = chain();
  const auto device = make_device("cpu:0");
  device->set_budget_bytes(2000);
  const std::string advice = nearest_that_fits(graph, {device}, {.batch = 64, .micro_batches = 1});
  EXPECT_NE(advice.find("PlanOptions::"), advice.npos) << advice;
  EXPECT_EQ(advice.find("pipeline."), advice.npos) << advice;
  EXPECT_EQ(nearest_that_fits(graph, {make_device("cpu:0")}, {.batch = 64, .micro_batches = 1, .memory = 2000}), advice);
  const auto refused = predict(graph, plan(graph, {device}, {.batch = 64, .micro_batches = 1}), AdamW({}), 64, {});
  EXPECT_NE(refused.reason.find("raise Device::Options::budget_bytes"), refused.reason.npos) << refused.reason;
  EXPECT_NE(cli::in_config_words(refused.reason).find("raise pipeline.memory"), refused.reason.npos);
  EXPECT_EQ(cli::in_config_words("2 devices, PlanOptions::micro_batches=kOpen and PlanOptions::remat=kOpen"),
            "2 devices, pipeline.micro_batches=auto and pipeline.remat=auto");
}

TEST(PlanningErrors, NameTheBudgetOfADeviceOnce) {
  try {
    sluice::devices("1x h100", {.budget_bytes = 1});
    FAIL() << "a GPU has its libraries' workspace";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("; raise Device::Options::budget_bytes"), std::string::npos) << error.what();
    const std::string shown = cli::in_config_words(error.what());
    EXPECT_TRUE(shown.ends_with("; raise pipeline.memory")) << shown;
  }
}

/// Sums of them would not be finite, and such bytes are no number of 64 bits.
TEST(PlanningErrors, NameTheNodeWithTimesThatNoneTakes) {
  for (const NodeTimes& wrong : {NodeTimes{.forward = 1e300}, {.crowding_bytes = 1e40}, {.step = -1}}) {
    const auto options = [&] {
      PlanOptions with_times{.batch = 4, .micro_batches = 2};
      with_times.times = [wrong](int64_t, const DevicePtr&) { return std::vector<NodeTimes>{{}, wrong, {}}; };
      return with_times;
    };
    EXPECT_EQ(message_of(options).find("plan: needs times >= 0 and below 9e18, got "), 0) << message_of(options);
    EXPECT_NE(message_of(options).find("node number 1; measure again"), std::string::npos) << message_of(options);
  }
}

TEST(PlanningErrors, LeaveOtherWordsAlone) {
  for (const char* text :
       {"", "remat", "MyPlan::devices", "Plan::devices_of", "PlanOptions::rematerialization", "NewPlanOptions::batch", "kOpened"})
    EXPECT_EQ(cli::in_config_words(text), text);
}

}  // namespace
}  // namespace sluice::parallel
