#include "parallel/program/replication.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "parallel/program/program_bytes.h"
#include "parallel/program/simulate.h"
#include "parallel/program/verify.h"
#include "tests/expect_error.h"
#include "tests/schedule/example_plans.h"

namespace sluice::parallel {
namespace {

/// A sum in words, so that its order shows. Nothing adds nothing.
std::string in_words(std::string a, std::string b) {
  if (a.empty() || b.empty()) return a + b;
  return "(" + a + "+" + b + ")";
}

std::string tree_of(const std::vector<std::string>& parts) {
  TreeSum<std::string> tree;
  for (const std::string& part : parts) tree.push(part, in_words);
  return tree.take(in_words);
}

std::vector<std::string> numbered(int first, int end) {
  std::vector<std::string> names;
  for (int number = first; number < end; ++number) names.push_back(std::to_string(number));
  return names;
}

TEST(TreeSum, AddsPairsOfPairs) {
  EXPECT_EQ(tree_of(numbered(0, 1)), "0");
  EXPECT_EQ(tree_of(numbered(0, 2)), "(0+1)");
  EXPECT_EQ(tree_of(numbered(0, 4)), "((0+1)+(2+3))");
  EXPECT_EQ(tree_of(numbered(0, 7)), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(tree_of({"0", "", "", "3"}), "(0+3)") << "an empty part keeps its place";
}

/// The claim that fault_of keeps to: then replicas add up whole nodes of the tree.
RC_GTEST_PROP(TreeSum, IsTheSameWhoeverAddsUpWholeNodes, ()) {
  const int replicas = pick(1, 9), each = 1 << pick(0, 4);
  std::vector<std::string> parts = numbered(0, replicas * each), of_replicas;
  for (std::string& part : parts)
    if (pick(0, 4) == 0) part.clear();
  for (int replica = 0; replica < replicas; ++replica)
    of_replicas.push_back(tree_of({parts.begin() + replica * each, parts.begin() + (replica + 1) * each}));
  RC_ASSERT(tree_of(of_replicas) == tree_of(parts));
}

RC_GTEST_PROP(Parts, CoverAllMicroBatchesOnceAndInOrder, ()) {
  const int micro_batches = pick(1, 40), parts = pick(1, 20);
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    const MicroBatchRange range = part_of(micro_batches, part, parts);
    RC_ASSERT(range.first == next);
    RC_ASSERT(range.end >= range.first);
    for (; next < range.end; ++next) RC_ASSERT(part_with(next, micro_batches, parts) == part);
  }
  RC_ASSERT(next == micro_batches);
}

/// A replica's micro-batches are those of its blocks.
RC_GTEST_PROP(Parts, OfReplicasAreWholeBlocks, ()) {
  const int micro_batches = pick(1, 40), replicas = pick(1, 9), each = 1 << pick(0, 4);
  for (int replica = 0; replica < replicas; ++replica) {
    const MicroBatchRange own = part_of(micro_batches, replica, replicas);
    RC_ASSERT(own.first == part_of(micro_batches, replica * each, replicas * each).first);
    RC_ASSERT(own.end == part_of(micro_batches, (replica + 1) * each - 1, replicas * each).end);
  }
}

TEST(Replication, NamesWhatDoesNotFitAndTheCure) {
  EXPECT_EQ(fault_of({1, 1}), "");
  EXPECT_EQ(fault_of({1, 6}), "");
  EXPECT_EQ(fault_of({3, 12}), "");
  EXPECT_NE(fault_of({2, 6}).find("needs 1, 2, 4, 8, ... fold blocks for each of the 2 replicas, got 6 in all; set 2 or 4"),
            std::string::npos);
  EXPECT_NE(fault_of({4, 2}).find("got 2"), std::string::npos);
  EXPECT_NE(fault_of({2, 1}).find("got 1"), std::string::npos);
  EXPECT_NE(fault_of({0, 1}).find("at least one replica, got 0"), std::string::npos);
  EXPECT_NE(fault_of({1, 0}).find("at least one fold block, got 0"), std::string::npos);
}

TEST(Replication, RefusesReplicasThatDoNotBelongTogether) {
  const auto of = [](int devices, int micro_batches) { return make_schedule(NamedSchedule::gpipe, devices, micro_batches); };
  expect_error<UsageError>([&] { replicated({}, 1); }, {"at least one replica"});
  expect_error<UsageError>([&] { replicated({of(2, 2), of(2, 2)}, 5); }, {"for number 1, 3 micro-batches", "got 2, 2 and 2"});
  expect_error<UsageError>([&] { replicated({of(2, 2), of(3, 2)}, 4); }, {"replicas of 2 devices", "got 3, 3 and 2"});
  const Plan plan{chain_topology(2), {{1, 1}}, replicated({of(2, 1), of(2, 1)}, 2), {false, false}, {}, {2, 2}};
  EXPECT_FALSE(verify(plan.topology, plan.lowered()));
  Plan wrong = plan;
  wrong.replication = {};
  expect_error<UsageError>([&] { wrong.lowered(); }, {"the partition has 2 stages and the schedule 4"});
  wrong.replication = {2, 6};
  expect_error<UsageError>([&] { wrong.lowered(); }, {"fold blocks for each of the 2 replicas, got 6"});
}

/// All programs are right as `lower` makes them, whatever the window.
RC_GTEST_PROP(Replication, IsLoweredToProgramsThatVerify, ()) {
  const Plan plan = random_replicated_plan();
  const TransferWindow window{pick(0, 4), pick(0, 4)};
  const auto program = lower(plan.topology, plan.partition, plan.schedule, plan.rematerialize, window, plan.replication);
  const auto found = verify(plan.topology, program);
  if (found) RC_FAIL(join(found->reason, " in ", plan));
}

RC_GTEST_PROP(Replication, NumbersDevicesOfReplicasOnceEach, ()) {
  const int replicas = pick(1, 6), each = pick(1, 6);
  const auto which = pick(0, 2) == 0 ? ReplicaDevices::together : ReplicaDevices::apart;
  std::vector<int> times(static_cast<size_t>(replicas * each), 0);
  for (int replica = 0; replica < replicas; ++replica)
    for (int device = 0; device < each; ++device) ++times.at(device_of_replica(which, device, replica, replicas, each));
  RC_ASSERT(std::ranges::all_of(times, [](int count) { return count == 1; }));
  RC_ASSERT(device_of_replica(ReplicaDevices::apart, 1, 0, replicas, each) == replicas);
}

TEST(Replication, OfDevicesThatAreApartIsProvedToo) {
  for (const auto name : kNamedSchedules) {
    const Schedule own = make_schedule(name, stage_placement(name, 3, 1), 4);
    const Partition partition{std::vector<int>(static_cast<size_t>(own.stage_count()), 1)};
    const Topology topology = chain_topology(own.stage_count());
    const std::vector<bool> none(static_cast<size_t>(own.stage_count()), false);
    const Schedule both = replicated({own, own}, 8, ReplicaDevices::apart);
    EXPECT_FALSE(verify(topology, lower(topology, partition, both, none, {}, {2, 2}))) << name_of(name);
    for (int stage = 0; stage < own.stage_count(); ++stage) {
      EXPECT_EQ(both.device_of_stage[stage], 2 * own.device_of_stage[stage]);
      EXPECT_EQ(both.device_of_stage[own.stage_count() + stage], 2 * own.device_of_stage[stage] + 1);
    }
  }
}

/// Four replicas of one device, whose every shard is of 1000 bytes.
Program four_replicas() {
  const std::vector<Schedule> own(4, make_schedule(NamedSchedule::gpipe, 1, 1));
  Program program = lower(chain_topology(1), {{1}}, replicated(own, 4), {false}, {}, {4, 4});
  for (auto& actions : program.devices)
    for (Action& action : actions)
      if (action.transfer.payload == Payload::gradient_shard || action.transfer.payload == Payload::weight_shard) action.bytes = 1000;
  return program;
}

SimulationCosts free_work() {
  SimulationCosts costs;
  costs.forward = costs.backward = std::vector<double>(4, 0);
  return costs;
}

/// A device sends to all others at once, and has one line.
TEST(Replication, ExchangesShareTheLineOfADevice) {
  SimulationCosts costs = free_work();
  costs.links.all = {0, 1000};
  EXPECT_DOUBLE_EQ(simulate(four_replicas(), costs).seconds, 2 * 3.0) << "gradients to three others, and weights";
  costs.links.all = {0.5, 1000};
  EXPECT_DOUBLE_EQ(simulate(four_replicas(), costs).seconds, 2 * 3.5 + 2 * 0.5) << "a latency for all, and the way of the norm";
}

/// One line within a host, another one between hosts.
TEST(Replication, ExchangesBetweenHostsHaveALineOfTheirOwn) {
  SimulationCosts costs = free_work();
  costs.links.of_device.assign(4, {0, 1000});
  costs.links.between_hosts.assign(4, {0, 500});
  costs.links.host = {0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(simulate(four_replicas(), costs).seconds, 2 * 4.0) << "two in the other host at 500 bytes a second";
  costs.links.between_hosts.assign(4, {0, 1e9});
  EXPECT_NEAR(simulate(four_replicas(), costs).seconds, 2 * 1.0, 1e-4) << "one in the same host";
  costs.links.host = {0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(simulate(four_replicas(), costs).seconds, 2 * 3.0);
}

/// What leaves for other replicas leaves directly after the last backward, and is waited for at the end of the device's work, so that it
/// overlaps the drain and holds nothing up.
TEST(Replication, SendsGradientsAsSoonAsTheyAreWhole) {
  const Plan plan{
      chain_topology(2), {{1, 1}}, replicated({sequential_schedule({0, 0}, 1, 2, false), sequential_schedule({0, 0}, 1, 2, false)}, 4),
      {false, false},    {},       {2, 2}};
  const Program program = plan.lowered();
  const Lines all = lines(program, plan.topology, 0);
  const auto at = [&](const std::string& line) { return std::ranges::find(all, line) - all.begin(); };
  EXPECT_EQ(at("ShardGrads(stage 1)") - at("B(stage 1, micro-batch 1)"), 3)
      << testing::PrintToString(all);  // behind Send and Recv to stage 0
  EXPECT_EQ(at("Send gradient shard from stage 1 to stage 3"), at("ShardGrads(stage 1)") + 1);
  EXPECT_LT(at("ShardGrads(stage 1)"), at("B(stage 0, micro-batch 1)"));
  EXPECT_GT(at("SendWait gradient shard from stage 1 to stage 3"), at("Send gradient shard from stage 0 to stage 2"));
  EXPECT_LT(at("FoldShards(stage 0)"), at("GradNorm"));
}

}  // namespace
}  // namespace sluice::parallel
