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
  plan.partition = Partition{{2, 2}};
  plan.micro_batches = 2;
  plan.schedule = NamedSchedule::one_f_one_b;
  plan.rematerialize.assign(4, false);
  return plan;
}

struct Spoiled {
  const char* field;
  std::function<void(Plan&)> spoil;
};

std::vector<Spoiled> spoiled_devices() {
  return {{"devices", [](Plan& plan) { plan.devices.clear(); }},
          {"devices", [](Plan& plan) { plan.devices[1] = nullptr; }},
          {"devices", [](Plan& plan) { plan.devices[1] = plan.devices[0]; }},
          {"devices", [](Plan& plan) { plan.devices[1] = make_device("meta:0"); }},
          {"partition", [](Plan& plan) { plan.devices.push_back(make_device("cpu:2")); }}};
}

std::vector<Spoiled> spoiled_stages() {
  const auto cut = [](std::vector<int> sizes) { return Spoiled{"partition", [sizes](Plan& plan) { plan.partition = Partition{sizes}; }}; };
  const auto segments = [](std::vector<int> counts) {
    return Spoiled{"partition", [counts](Plan& plan) { plan.partition = SegmentedPartition(Partition{{2, 2}}, counts); }};
  };
  return {{"partition", [](Plan& plan) { plan.partition = {}; }},
          cut({}),
          cut({4}),
          cut({2, 1}),
          cut({4, 0}),
          cut({5, -1}),
          cut({INT32_MAX, INT32_MAX}),
          cut({1, 1, 1, 1}),
          segments({}),
          segments({1}),
          segments({2}),
          segments({2, 2}),
          segments({2, 0}),
          segments({3, -1}),
          segments({INT32_MAX, INT32_MAX}),
          {"partition",
           [](Plan& plan) {
             plan.partition = SegmentedPartition(Partition{{INT32_MAX, INT32_MAX}}, {1, 1});
           }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.clear(); }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.resize(3); }},
          {"rematerialize", [](Plan& plan) { plan.rematerialize.resize(5); }}};
}

/// Forwards and backwards of each stage.
StageCosts costs_of(std::vector<double> seconds) {
  StageCosts costs;
  costs.forward = costs.backward = std::move(seconds);
  return costs;
}

std::vector<Spoiled> spoiled_schedules() {
  const auto named = [](NamedSchedule schedule, const char* field) {
    return Spoiled{field, [=](Plan& plan) { plan.schedule = schedule; }};
  };
  const auto own = [](const Schedule& schedule) { return Spoiled{"schedule", [=](Plan& plan) { plan.schedule = schedule; }}; };
  const auto searched = [](const Schedule& schedule, const StageCosts& costs) {
    return Spoiled{"schedule", [=](Plan& plan) { plan.schedule = SearchedSchedule(schedule, costs); }};
  };
  using enum NamedSchedule;
  return {{"micro_batches", [](Plan& plan) { plan.micro_batches = 0; }},
          {"micro_batches", [](Plan& plan) { plan.micro_batches = -3; }},
          named(static_cast<NamedSchedule>(-1), "schedule"),
          named(static_cast<NamedSchedule>(9), "schedule"),
          named(zb_v, "partition"),
          own({}),
          own(make_schedule(one_f_one_b, 3, 2)),
          own(make_schedule(one_f_one_b, 2, 3)),
          own(make_schedule(zb_v, 2, 2)),
          own(forward_schedule({0, 1}, 2)),
          searched({}, costs_of({1, 1})),
          searched(make_schedule(one_f_one_b, 3, 2), costs_of({1, 1, 1})),
          searched(make_schedule(zb_v, 2, 2), costs_of({1, 1, 1, 1})),
          searched(forward_schedule({0, 1}, 2), costs_of({1, 1})),
          searched(make_schedule(one_f_one_b, 2, 2), costs_of({1, kInfinity})),
          searched(make_schedule(one_f_one_b, 2, 2), costs_of({1})),
          searched(make_schedule(one_f_one_b, 2, 2), {})};
}

std::vector<Spoiled> spoiled_orders() {
  const auto spoil = [](auto change) {
    return Spoiled{"schedule", [change](Plan& plan) {
                     Schedule orders = make_schedule(NamedSchedule::one_f_one_b, 2, 2);
                     change(orders);
                     plan.schedule = std::move(orders);
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
          {"window", [](Plan& plan) { plan.window.ahead = -1; }},
          {"window", [](Plan& plan) { plan.window.behind = -1; }},
          {"bound_seconds", [](Plan& plan) { plan.bound_seconds = kNaN; }},
          {"bound_seconds", [](Plan& plan) { plan.bound_seconds = -1; }},
          {"times", [](Plan& plan) { plan.times.resize(3); }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(3)}; }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(4, NodeTimes{.forward = kNaN})}; }},
          {"times", [](Plan& plan) { plan.times = {std::vector<NodeTimes>(4, NodeTimes{.step = -1})}; }}};
}

std::vector<Spoiled> all_spoiled() {
  std::vector<Spoiled> all;
  for (const auto& part : {spoiled_devices(), spoiled_stages(), spoiled_schedules(), spoiled_orders(), spoiled_numbers()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Some of what is wrong cannot even be written: then this throws.
Plan spoiled_plan(const Spoiled& wrong) {
  Plan plan = right_plan();
  wrong.spoil(plan);
  return plan;
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
    const std::string field = join("Plan::", wrong.field);
    expect_error<UsageError>([&] { Trainer(graph, spoiled_plan(wrong), sgd); }, {field});
    expect_error<UsageError>([&] { predict(graph, spoiled_plan(wrong), sgd, kSamples, {}); }, {field});
  }
}

/// These know no graph, so a plan of another model passes; one that is wrong in itself does not.
TEST(PlanByHand, IsRefusedByWhatReadsItAlone) {
  for (const auto& part : {spoiled_schedules(), spoiled_orders()})
    for (const Spoiled& wrong : part) {
      const std::string field = join("Plan::", wrong.field);
      expect_error<UsageError>([&] { device_of_stage(spoiled_plan(wrong)); }, {field});
      expect_error<UsageError>([&] { schedule_of(spoiled_plan(wrong), 2); }, {field});
    }
}

int pick(int least, int end) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, end)); }

/// Some that train, and some that no plan can have.
Schedule random_orders() {
  Schedule orders = make_schedule(kNamedSchedules[pick(0, 4)], 2, pick(1, 4), 1);
  for (int changes = pick(0, 3); changes > 0; --changes) {
    auto& order = orders.devices[pick(0, 2)];
    const int at = pick(0, static_cast<int>(order.size())), to = pick(0, static_cast<int>(order.size()));
    const int change = pick(0, 6);
    if (change <= 2) std::swap(order[at], order[to]);
    if (change == 3) order[at].stage = pick(-1, 4);
    if (change == 4) order[at].micro_batch = pick(-1, 4);
    if (change == 5) order[at].kind = static_cast<Compute>(pick(0, 5));
  }
  return orders;
}

std::vector<int> random_numbers() { return *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 4)); }

/// A plan with some fields made at random.
Plan random_plan() {
  Plan plan = right_plan();
  if (pick(0, 3) == 0) plan.partition = Partition{random_numbers()};
  if (pick(0, 3) == 0) plan.partition = Partition{std::vector<int>(4, 1)};
  if (pick(0, 4) == 0) plan.partition = SegmentedPartition(plan.partition.segments(), random_numbers());
  if (pick(0, 3) == 0) plan.micro_batches = pick(-1, 9);
  if (pick(0, 2) == 0) plan.schedule = static_cast<NamedSchedule>(pick(-1, 6));
  if (pick(0, 4) == 0) plan.rematerialize = *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>());
  if (pick(0, 4) == 0) plan.devices.resize(pick(0, 3));
  if (pick(0, 3) == 0) plan.schedule = random_orders();
  if (pick(0, 6) == 0) plan.schedule = SearchedSchedule(random_orders(), costs_of({1, 1}));
  return plan;
}

std::string hash_after_a_step(const Plan& plan) {
  Trainer trainer(four_nodes(), plan, SGD({.lr = 0.1}));
  trainer.step(numbers());
  return trainer.weights_hash();
}

RC_GTEST_PROP(PlanByHand, MadeAtRandomIsRefusedOrGivesTheAnswer, ()) {
  for (int instance = 0; instance < 20; ++instance) {
    Plan alone = right_plan();
    std::string hash;
    try {
      const Plan plan = random_plan();
      hash = hash_after_a_step(plan);
      alone.micro_batches = plan.micro_batches;
    } catch (const UsageError&) {
      continue;
    }
    alone.devices.resize(1);
    alone.partition = Partition{{4}};
    RC_ASSERT(hash == hash_after_a_step(alone));
  }
}

}  // namespace
}  // namespace sluice::parallel
