#include <gtest/gtest.h>

#include "cli/config_words.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/plan/advice.h"
#include "parallel/schedule/named.h"
#include "tests/expect_error.h"

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
    for (const char* remat : {"none", "auto"}) {
      SCOPED_TRACE(join(names, ", ", remat));
      const auto planned = [&] {
        const Plan chosen = plan(wrong, devices(names), {.batch = 4, .micro_batches = 2, .remat = remat});
        predict(wrong, chosen, AdamW({}), 4, {});
      };
      expect_error<UsageError>(planned, {"node 'second'", "multiple of 3"});
    }
}

/// The message of what planning with these options throws.
std::string message_of(const PlanOptions& options, const std::vector<DevicePtr>& devices = sluice::devices("cpu:0,cpu:1")) {
  try {
    plan(chain(), devices, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlanningErrors, NameTheFieldOfCppAndInTheProgramTheKey) {
  Schedule three = make_schedule("1f1b", 3, 2);
  Schedule empty;
  const std::vector<std::tuple<PlanOptions, std::string, std::string>> cases{
      {{.batch = 0}, "PlanOptions::batch", "train.batch"},
      {{.batch = 4, .micro_batches = 5}, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {{.batch = 4, .micro_batches = -1}, "PlanOptions::micro_batches", "pipeline.micro_batches"},
      {{.batch = 4, .micro_batches = 2, .orders = three}, "PlanOptions::orders", "pipeline.schedule"},
      {{.batch = 4, .micro_batches = 2, .orders = empty}, "PlanOptions::orders", "pipeline.schedule"},
      {{.batch = 4, .schedule = "interleaved", .virtual_stages = 9}, "PlanOptions::virtual_stages", "pipeline.virtual_stages"},
      {{.batch = 4, .virtual_stages = -2}, "PlanOptions::virtual_stages", "pipeline.virtual_stages"},
      {{.batch = 4, .partition = "uniforme"}, "PlanOptions::partition", "pipeline.partition"},
      {{.batch = 4, .partition = "list", .sizes = {3}}, "PlanOptions::sizes", "pipeline.partition"},
      {{.batch = 4, .remat = "nosuch"}, "PlanOptions::remat", "pipeline.remat"},
      {{.batch = 4, .remat = "list", .remat_nodes = {"secnd"}}, "PlanOptions::remat_nodes", "pipeline.remat"},
      {{.batch = 4, .memory = 0}, "PlanOptions::memory", "pipeline.memory"},
      {{.batch = 4, .search_seconds = -1}, "PlanOptions::search_seconds", "pipeline.search_seconds"},
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

TEST(PlanningErrors, NameDevicesThatNoPlanCanHave) {
  const auto cpu = make_device("cpu:0");
  for (const std::vector<DevicePtr>& wrong : {std::vector<DevicePtr>{}, {nullptr}, {cpu, cpu}, {cpu, make_device("meta:0")}})
    EXPECT_EQ(message_of({.batch = 4}, wrong).find("Plan::devices: "), 0) << message_of({.batch = 4}, wrong);
  EXPECT_EQ(cli::in_config_words("Plan::devices: needs one"), "pipeline.devices: needs one");
}

TEST(PlanningErrors, AdviseInTheWordsOfTheCaller) {
  const auto graph = chain();
  const auto device = make_device("cpu:0");
  device->set_budget_bytes(2000);
  const std::string advice = nearest_that_fits(graph, {device}, {.batch = 64, .micro_batches = 1});
  EXPECT_NE(advice.find("PlanOptions::"), advice.npos) << advice;
  EXPECT_EQ(advice.find("pipeline."), advice.npos) << advice;
  const auto refused = predict(graph, plan(graph, {device}, {.batch = 64, .micro_batches = 1}), AdamW({}), 64, {});
  EXPECT_NE(refused.reason.find("raise Device::Options::budget_bytes"), refused.reason.npos) << refused.reason;
  EXPECT_NE(cli::in_config_words(refused.reason).find("raise pipeline.memory"), refused.reason.npos);
  EXPECT_EQ(cli::in_config_words("2 devices, PlanOptions::micro_batches=0 and PlanOptions::remat=auto"),
            "2 devices, pipeline.micro_batches=auto and pipeline.remat=auto");
}

TEST(PlanningErrors, LeaveOtherWordsAlone) {
  for (const char* text : {"", "remat", "MyPlan::devices", "Plan::devices_of", "PlanOptions::rematerialization", "NewPlanOptions::batch"})
    EXPECT_EQ(cli::in_config_words(text), text);
}

}  // namespace
}  // namespace sluice::parallel
