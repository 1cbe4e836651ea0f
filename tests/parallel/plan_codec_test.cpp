#include "parallel/plan/plan_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "parallel/plan.h"
#include "parallel/plan/check.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::shuffled_schedule;
using sluice::testing::skip_graph;

std::vector<DevicePtr> two() { return devices("cpu:0,cpu:1"); }

/// Seven nodes in two stages, the second one in two segments, with times that decimal digits do not hold.
Plan hand_made(PlannedSchedule schedule) {
  Plan plan{two(), SegmentedPartition(Partition{{3, 2, 2}}, {1, 2}), 4, std::move(schedule), {true, false, true, true, false, false, true}};
  plan.window = {3, 0};
  plan.replica_devices = ReplicaDevices::apart;
  plan.precision = Precision::bf16;
  plan.times = {std::vector<NodeTimes>(7, {.forward = 0.1, .backward = 1.0 / 3, .step = 5e-324, .crowding = -0.0, .crowding_bytes = 1e15})};
  plan.bound_seconds = 0.7;
  plan.is_exact = true;
  return plan;
}

Schedule order_of_two() { return make_schedule(NamedSchedule::one_f_one_b, 2, 4); }

StageCosts costs_of_two() {
  StageCosts costs;
  costs.forward = {1, 2};
  costs.backward = {3, 2};
  return costs;
}

bool same_bits(const std::vector<std::vector<NodeTimes>>& a, const std::vector<std::vector<NodeTimes>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t kind = 0; kind < a.size(); ++kind)
    if (a[kind].size() != b[kind].size() || std::memcmp(a[kind].data(), b[kind].data(), a[kind].size() * sizeof(NodeTimes)) != 0)
      return false;
  return true;
}

void expect_equal_but_for_the_schedule(const Plan& arrived, const Plan& sent) {
  EXPECT_EQ(arrived.partition.segments(), sent.partition.segments());
  EXPECT_EQ(arrived.partition.segments_of_stage(), sent.partition.segments_of_stage());
  EXPECT_EQ(arrived.micro_batches, sent.micro_batches);
  EXPECT_EQ(arrived.rematerialize, sent.rematerialize);
  EXPECT_EQ(arrived.window, sent.window);
  EXPECT_EQ(arrived.replica_devices, sent.replica_devices);
  EXPECT_EQ(arrived.precision, sent.precision);
  EXPECT_TRUE(same_bits(arrived.times, sent.times));
  EXPECT_EQ(arrived.bound_seconds, sent.bound_seconds);
  EXPECT_EQ(arrived.is_exact, sent.is_exact);
  EXPECT_EQ(arrived.is_out_of_time, sent.is_out_of_time);
}

/// Sends a plan to a rank with devices of its own.
Plan sent_to_another(const Plan& plan) {
  const std::string bytes = encode(plan);
  const auto own = two();
  Plan arrived = decode_plan(bytes, own);
  EXPECT_EQ(arrived.devices, own);
  EXPECT_NO_THROW(require_valid(arrived));
  EXPECT_EQ(encode(arrived), bytes);
  expect_equal_but_for_the_schedule(arrived, plan);
  return arrived;
}

TEST(PlanCodec, KeepsNamedSchedulesByName) {
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::interleaved, NamedSchedule::zb_h1})
    EXPECT_EQ(*sent_to_another(hand_made(schedule)).schedule.named(), schedule);
}

TEST(PlanCodec, KeepsTheUsersOwnOrder) {
  Schedule own = shuffled_schedule(2, 2, 4, 7);
  own.name = "mine";
  EXPECT_EQ(*sent_to_another(hand_made(own)).schedule.own(), own);
}

TEST(PlanCodec, SendsASearchedOrderWithItsNameAndWithoutItsCosts) {
  const Plan plan = hand_made(SearchedSchedule(order_of_two(), costs_of_two()));
  const Plan arrived = sent_to_another(plan);
  EXPECT_EQ(arrived.schedule.own()->devices, order_of_two().devices);
  EXPECT_EQ(name_of(arrived.schedule), name_of(plan.schedule));
  EXPECT_EQ(schedule_of(arrived, 4).devices, schedule_of(plan, 4).devices);
}

TEST(PlanCodec, SearchesAnOrderThatIsOfAnotherNumberOfMicroBatches) {
  Plan plan = hand_made(SearchedSchedule(order_of_two(), costs_of_two()));
  plan.micro_batches = 3;
  EXPECT_EQ(schedule_of(sent_to_another(plan), 3).devices, schedule_of(plan, 3).devices);
}

/// Other ranks refused the plan of 5 by which the root trained: one order was sent, for 2.
TEST(PlanCodec, SendsASearchedOrderOfReplicasWithUnequalNumbersOfMicroBatches) {
  Plan plan = hand_made(SearchedSchedule(order_of_two(), costs_of_two()));
  plan.devices = devices("4x cpu");
  plan.replication = {.replicas = 2, .fold_blocks = 2};
  plan.micro_batches = 5;
  const Plan arrived = decode_plan(encode(plan), devices("4x cpu"));
  EXPECT_EQ(device_of_stage(arrived), device_of_stage(plan));
  EXPECT_EQ(schedule_of(arrived, 5).devices, schedule_of(plan, 5).devices);
}

TEST(PlanCodec, RefusesOwnOrdersThatAReplicaLacks) {
  Plan plan = hand_made(order_of_two());
  plan.devices = devices("4x cpu");
  plan.replication = {.replicas = 2, .fold_blocks = 2};
  plan.micro_batches = 7;  // 3 and 4, and the order is for 4
  expect_error<UsageError>([&] { encode(plan); }, {"Plan::schedule: is for 4 micro-batches of each replica", "Plan::micro_batches is 7"});
  plan.schedule = std::vector{order_of_two(), make_schedule(NamedSchedule::one_f_one_b, 2, 3)};
  EXPECT_NO_THROW(encode(plan));
  Schedule elsewhere = make_schedule(NamedSchedule::one_f_one_b, 2, 3);
  std::ranges::reverse(elsewhere.device_of_stage);
  std::ranges::reverse(elsewhere.devices);
  plan.schedule = std::vector{order_of_two(), elsewhere};
  expect_error<UsageError>([&] { encode(plan); }, {"place stages alike"});
}

TEST(PlanCodec, KeepsWhatThePlannerMakes) {
  const auto graph = skip_graph();
  for (const ScheduleChoice& schedule : {ScheduleChoice(NamedSchedule::one_f_one_b), {kOpen}}) {
    const Plan planned = plan(graph, two(), {.batch = 8, .micro_batches = 4, .schedule = schedule, .partition = kOpen, .remat = kOpen});
    const Plan arrived = sent_to_another(planned);
    EXPECT_NO_THROW(require_valid(arrived, graph));
    EXPECT_EQ(schedule_of(arrived, 4).devices, schedule_of(planned, 4).devices);
  }
}

TEST(PlanCodec, RefusesEveryShorterPieceAndMore) {
  const std::string bytes = encode(hand_made(order_of_two()));
  const auto own = two();
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(decode_plan(bytes.substr(0, size), own), DataError) << size << " bytes";
  expect_error<DataError>([&] { decode_plan(bytes + "x", own); }, {"plan: needs the end"});
}

TEST(PlanCodec, TakesDamagedBytesForWhatTheySayOrRefusesThem) {
  const auto own = two();
  for (const PlannedSchedule& schedule : {PlannedSchedule(order_of_two()), PlannedSchedule(NamedSchedule::gpipe)}) {
    const std::string bytes = encode(hand_made(schedule));
    for (size_t place = 0; place < bytes.size(); ++place)
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = bytes;
        changed[place] = static_cast<char>(changed[place] ^ 1 << bit);
        try {
          EXPECT_EQ(encode(decode_plan(changed, own)), changed);
        } catch (const DataError&) {
        } catch (const UsageError&) {  // of another number of devices
          EXPECT_EQ(place, 5u);
        }
      }
  }
}

TEST(PlanCodec, SaysWhatIsWrong) {
  const std::string bytes = encode(hand_made(NamedSchedule::gpipe));
  expect_error<UsageError>([&] { decode_plan(bytes, devices("cpu:0,cpu:1,cpu:2")); }, {"needs 2 devices", "got 3", "same config"});
  expect_error<UsageError>([&] { decode_plan(bytes, {two()[0], nullptr}); }, {"null pointer"});
  std::string wrong = bytes;
  wrong[8] = 0;  // the first segment's nodes
  expect_error<DataError>([&] { decode_plan(wrong, two()); }, {"at least one node a segment", "damaged"});
  expect_error<UsageError>([] { encode(Plan{}); }, {"Plan::devices"});
}

}  // namespace
}  // namespace sluice::parallel
