#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/schedule/named.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 6;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

layers::Graph four_nodes() {
  layers::Graph graph;
  auto x = graph.input("x", {3});
  const auto label = graph.input("label", {}, DType::i32);
  for (const char* name : {"a", "b", "c"}) x = graph.add(name, layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

Batch numbers() {
  Tensor x = empty({kSamples, 3});
  fill_uniform(x, -1, 1, random_key(1, "x"));
  return batch_of({{"x", x}, {"label", tensor_of({0, 1, 2, 2, 1, 0}, {kSamples}, DType::i32)}});
}

Plan right_plan() {
  Plan plan;
  plan.devices = devices("cpu:0,cpu:1");
  plan.partition.sizes = {2, 2};
  plan.micro_batches = 2;
  plan.schedule = "1f1b";
  plan.rematerialize.assign(4, false);
  return plan;
}

struct Spoiled {
  const char* field;
  std::function<void(Plan&)> spoil;
};

void take_orders(Plan& plan) { plan.orders = make_schedule("1f1b", 2, 2); }

std::vector<Spoiled> spoiled_devices() {
  return {{"devices", [](Plan& plan) { plan.devices.clear(); }},
          {"devices", [](Plan& plan) { plan.devices[1] = nullptr; }},
          {"devices", [](Plan& plan) { plan.devices[1] = plan.devices[0]; }},
          {"devices", [](Plan& plan) { plan.devices[1] = make_device("meta:0"); }},
          {"partition", [](Plan& plan) { plan.devices.push_back(make_device("cpu:2")); }}};
}

std::vector<Spoiled> spoiled_stages() {
  return {{"partition", [](Plan& plan) { plan.partition.sizes.clear(); }},
          {"partition", [](Plan& plan) { plan.partition.sizes = {4}; }},
          {"partition",
           [](Plan& plan) {
             plan.partition.sizes = {2, 1};
           }},
          {"partition",
           [](Plan& plan) {
             plan.partition.sizes = {4, 0};
           }},
          {"partition",
           [](Plan& plan) {
             plan.partition.sizes = {5, -1};
           }},
          {"partition",
           [](Plan& plan) {
             plan.partition.sizes = {INT32_MAX, INT32_MAX};
           }},
          {"partition",
           [](Plan& plan) {
             plan.partition.sizes = {1, 1, 1, 1};
           }},
          {"segments", [](Plan& plan) { plan.segments = {1}; }},
          {"segments",
           [](Plan& plan) {
             plan.segments = {2, 2};
           }},
          {"segments",
           [](Plan& plan) {
             plan.segments = {2, 0};
           }},
          {"segments",
           [](Plan& plan) {
             plan.segments = {3, -1};
           }},
          {"segments",
           [](Plan& plan) {
             plan.segments = {INT32_MAX, INT32_MAX};
           }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.clear(); }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.resize(3); }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.resize(5); }}};
}

std::vector<Spoiled> spoiled_schedules() {
  return {{"micro_batches", [](Plan& plan) { plan.micro_batches = 0; }},
          {"micro_batches", [](Plan& plan) { plan.micro_batches = -3; }},
          {"schedule", [](Plan& plan) { plan.schedule = ""; }},
          {"schedule", [](Plan& plan) { plan.schedule = "1f2b"; }},
          {"schedule", [](Plan& plan) { plan.schedule = "auto"; }},
          {"schedule", [](Plan& plan) { plan.schedule = "mine.csv"; }},
          {"schedule", [](Plan& plan) { plan.schedule = "forward-only"; }},
          {"partition", [](Plan& plan) { plan.schedule = "zb-v"; }},
          {"orders", [](Plan& plan) { plan.orders = Schedule{}; }},
          {"orders", [](Plan& plan) { plan.orders = make_schedule("1f1b", 3, 2); }},
          {"orders", [](Plan& plan) { plan.orders = make_schedule("1f1b", 2, 3); }},
          {"orders", [](Plan& plan) { plan.orders = make_schedule("zb-v", 2, 2); }},
          {"orders", [](Plan& plan) { plan.orders = make_schedule("forward-only", 2, 2); }}};
}

std::vector<Spoiled> spoiled_orders() {
  const auto spoil = [](auto change) {
    return Spoiled{"orders", [change](Plan& plan) {
                     take_orders(plan);
                     change(*plan.orders);
                   }};
  };
  return {spoil([](Schedule& orders) { orders.devices[1].pop_back(); }),
          spoil([](Schedule& orders) { orders.devices[1].push_back(orders.devices[1].back()); }),
          spoil([](Schedule& orders) { std::swap(orders.devices[0].front(), orders.devices[0].back()); }),
          spoil([](Schedule& orders) { std::swap(orders.devices[0], orders.devices[1]); }),
          spoil([](Schedule& orders) { orders.devices[0][0].stage = 7; }),
          spoil([](Schedule& orders) { orders.devices[0][0].stage = -1; }),
          spoil([](Schedule& orders) { orders.devices[0][0].micro_batch = 2; }),
          spoil([](Schedule& orders) { orders.devices[0][0].micro_batch = -1; }),
          spoil([](Schedule& orders) { orders.devices[0][0].kind = static_cast<Compute>(9); }),
          spoil([](Schedule& orders) { orders.devices[0].back().kind = Compute::input_gradient; }),
          spoil([](Schedule& orders) {
            orders.device_of_stage = {0, 2};
          }),
          spoil([](Schedule& orders) {
            orders.device_of_stage = {0, -2};
          }),
          spoil([](Schedule& orders) {
            orders.device_of_stage = {0, 0};
          }),
          spoil([](Schedule& orders) { orders.device_of_stage.clear(); }),
          spoil([](Schedule& orders) { orders.micro_batches = INT32_MAX; }),
          spoil([](Schedule& orders) { orders.micro_batches = 0; })};
}

std::vector<Spoiled> spoiled_numbers() {
  return {{"precision", [](Plan& plan) { plan.precision = static_cast<Precision>(17); }},
          {"bound_seconds", [](Plan& plan) { plan.bound_seconds = kNaN; }},
          {"bound_seconds", [](Plan& plan) { plan.bound_seconds = -1; }},
          {"times", [](Plan& plan) { plan.times.resize(3); }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(3)}; }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(4, NodeTimes{.forward = kNaN})}; }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(4, NodeTimes{.step = -1})}; }},
          {"chain",
           [](Plan& plan) {
             take_orders(plan);
             plan.schedule = "auto";
             plan.chain.forward = {1, kInfinity};
             plan.chain.backward = {1, 1};
           }},
          {"chain", [](Plan& plan) {
             take_orders(plan);
             plan.schedule = "auto";
             plan.chain.forward = plan.chain.backward = {1};
           }}};
}

std::vector<Spoiled> all_spoiled() {
  std::vector<Spoiled> all;
  for (const auto& part : {spoiled_devices(), spoiled_stages(), spoiled_schedules(), spoiled_orders(), spoiled_numbers()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(PlanByHand, ThatIsRightTrains) {
  Trainer trainer(four_nodes(), right_plan(), SGD({.lr = 0.1}));
  EXPECT_GT(trainer.step(numbers()).loss, 0);
  EXPECT_TRUE(predict(four_nodes(), right_plan(), SGD({.lr = 0.1}), kSamples, {}).fits);
}

TEST(PlanByHand, WithAnyFieldWrongIsRefusedByNameEverywhere) {
  const auto graph = four_nodes();
  const SGD sgd({.lr = 0.1});
  int index = 0;
  for (const Spoiled& wrong : all_spoiled()) {
    SCOPED_TRACE(join("case ", index++, ", ", wrong.field));
    Plan plan = right_plan();
    wrong.spoil(plan);
    const std::string field = join("Plan::", wrong.field);
    expect_error<UsageError>([&] { Trainer(graph, plan, sgd); }, {field});
    expect_error<UsageError>([&] { predict(graph, plan, sgd, kSamples, {}); }, {field});
  }
}

/// These know no graph, so a plan of another model passes; one that is wrong in itself does not.
TEST(PlanByHand, IsRefusedByWhatReadsItAlone) {
  for (const auto& part : {spoiled_schedules(), spoiled_orders()})
    for (const Spoiled& wrong : part) {
      Plan plan = right_plan();
      wrong.spoil(plan);
      const std::string field = join("Plan::", wrong.field);
      expect_error<UsageError>([&] { device_of_stage(plan); }, {field});
      expect_error<UsageError>([&] { schedule_of(plan, 2); }, {field});
      expect_error<UsageError>([&] { stage_sizes(plan); }, {field});
    }
}

int pick(int least, int end) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, end)); }

/// A plan with some fields made at random.
Plan random_plan() {
  Plan plan = right_plan();
  const std::vector<std::string> names{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "forward-only", "auto", "", "x"};
  if (pick(0, 3) == 0) plan.partition.sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 4));
  if (pick(0, 3) == 0) plan.partition.sizes = std::vector<int>(4, 1);
  if (pick(0, 4) == 0) plan.segments = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 4));
  if (pick(0, 3) == 0) plan.micro_batches = pick(-1, 9);
  if (pick(0, 2) == 0) plan.schedule = names[pick(0, static_cast<int>(names.size()))];
  if (pick(0, 4) == 0) plan.rematerialize = *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>());
  if (pick(0, 4) == 0) plan.devices.resize(pick(0, 3));
  if (pick(0, 2) == 0) {
    plan.orders = make_schedule(names[pick(0, 4)], 2, pick(1, 4), 1);
    auto& orders = *plan.orders;
    for (int changes = pick(0, 3); changes > 0; --changes) {
      auto& order = orders.devices[pick(0, 2)];
      const int at = pick(0, static_cast<int>(order.size())), to = pick(0, static_cast<int>(order.size()));
      const int change = pick(0, 6);
      if (change <= 2) std::swap(order[at], order[to]);
      if (change == 3) order[at].stage = pick(-1, 4);
      if (change == 4) order[at].micro_batch = pick(-1, 4);
      if (change == 5) order[at].kind = static_cast<Compute>(pick(0, 5));
    }
  }
  return plan;
}

std::string hash_after_a_step(const Plan& plan) {
  Trainer trainer(four_nodes(), plan, SGD({.lr = 0.1}));
  trainer.step(numbers());
  return trainer.weights_hash();
}

RC_GTEST_PROP(PlanByHand, MadeAtRandomIsRefusedOrGivesTheAnswer, ()) {
  for (int instance = 0; instance < 20; ++instance) {
    const Plan plan = random_plan();
    std::string hash;
    try {
      hash = hash_after_a_step(plan);
    } catch (const UsageError&) {
      continue;
    }
    Plan alone = right_plan();
    alone.devices.resize(1);
    alone.partition.sizes = {4};
    alone.micro_batches = plan.micro_batches;
    RC_ASSERT(hash == hash_after_a_step(alone));
  }
}

}  // namespace
}  // namespace sluice::parallel
