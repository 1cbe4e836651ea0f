#include "parallel/plan/plan_codec.h"

#include <set>

#include "parallel/plan/check.h"
#include "parallel/program/byte_stream.h"
#include "parallel/run/agreement.h"

namespace sluice::parallel {

namespace {

constexpr std::string_view kPlanMagic = "SlPl";
constexpr int64_t kPlanVersion = 4;
constexpr size_t kLeastComputeAction = 3;  // bytes: one a field

enum class ScheduleKind { named, orders };

void write(ByteWriter& out, const Schedule& schedule) {
  out.text(schedule.name);
  out.number(schedule.micro_batches);
  out.integers(schedule.device_of_stage);
  out.count(schedule.devices.size());
  for (const auto& order : schedule.devices) {
    out.count(order.size());
    for (const auto& [kind, stage, micro_batch] : order) {
      out.choice(kind);
      out.number(stage);
      out.number(micro_batch);
    }
  }
}

Schedule read_schedule(ByteReader& in) {
  Schedule schedule;
  schedule.name = in.text();
  schedule.micro_batches = in.integer();
  schedule.device_of_stage = in.integers();
  schedule.devices.resize(in.count(1));
  for (auto& order : schedule.devices) {
    order.resize(in.count(kLeastComputeAction));
    for (auto& [kind, stage, micro_batch] : order) {
      kind = in.choice(Compute::weight_gradient);
      stage = in.integer();
      micro_batch = in.integer();
    }
  }
  return schedule;
}

/// The orders of a plan that is not named. A searched one may be of another number of micro-batches than the replicas.
std::vector<Schedule> orders_of(const Plan& plan) {
  const auto* searched = plan.schedule.searched();
  if (!searched) return plan.schedule.all_own();
  std::set<int> numbers;
  for (int replica = 0; replica < plan.replication.replicas; ++replica)
    numbers.insert(part_of(plan.micro_batches, replica, plan.replication.replicas).count());
  std::vector<Schedule> orders;
  for (const int number : numbers) {
    orders.push_back(searched->order().micro_batches == number ? searched->order() : searched->search_again(number).schedule);
    orders.back().name = name_of(plan.schedule);
  }
  return orders;
}

void write_order_of_work(ByteWriter& out, const Plan& plan) {
  const auto* named = plan.schedule.named();
  out.choice(named ? ScheduleKind::named : ScheduleKind::orders);
  if (named) return out.choice(*named);
  const std::vector<Schedule> orders = orders_of(plan);
  out.count(orders.size());
  for (const Schedule& order : orders) write(out, order);
}

PlannedSchedule read_order_of_work(ByteReader& in) {
  if (in.choice(ScheduleKind::orders) == ScheduleKind::named) return in.choice(NamedSchedule::zb_v);
  std::vector<Schedule> orders(in.count(kLeastComputeAction));
  for (Schedule& order : orders) order = read_schedule(in);
  return orders;
}

void write(ByteWriter& out, const std::vector<NodeTimes>& times) {
  out.count(times.size());
  for (const NodeTimes& node : times)
    for (const auto part : kNodeTimes) out.real(node.*part);
}

std::vector<NodeTimes> read_times(ByteReader& in) {
  std::vector<NodeTimes> times(in.count(sizeof(NodeTimes)));
  for (NodeTimes& node : times)
    for (const auto part : kNodeTimes) node.*part = in.real();
  return times;
}

SegmentedPartition read_partition(ByteReader& in) {
  Partition segments{in.integers()};
  return {std::move(segments), in.integers()};
}

/// All fields behind the number of devices and the precision. A field that Plan gets does not compile until it is written here.
void write_rest(ByteWriter& out, const Plan& plan) {
  [[maybe_unused]] const auto& [devices, partition, micro_batches, schedule, rematerialize, window, precision, times, bound_seconds,
                                is_exact, is_out_of_time, replication, replica_devices] = plan;
  out.integers(partition.segments().sizes);
  out.integers(partition.segments_of_stage());
  out.number(micro_batches);
  write_order_of_work(out, plan);
  out.flags(rematerialize);
  out.number(replication.replicas);
  out.number(replication.fold_blocks);
  out.flag(replication.shards_optimizer);
  out.choice(replica_devices);
  out.number(window.ahead);
  out.number(window.behind);
  out.count(times.size());
  for (const auto& kind : times) write(out, kind);
  out.real(bound_seconds);
  out.flag(is_exact);
  out.flag(is_out_of_time);
}

void read_rest(ByteReader& in, Plan& plan) {
  plan.partition = read_partition(in);
  plan.micro_batches = in.integer();
  plan.schedule = read_order_of_work(in);
  plan.rematerialize = in.flags();
  plan.replication.replicas = in.integer();
  plan.replication.fold_blocks = in.integer();
  plan.replication.shards_optimizer = in.flag();
  plan.replica_devices = in.choice(ReplicaDevices::apart);
  plan.window.ahead = in.integer();
  plan.window.behind = in.integer();
  plan.times.resize(in.count(1));
  for (auto& kind : plan.times) kind = read_times(in);
  plan.bound_seconds = in.real();
  plan.is_exact = in.flag();
  plan.is_out_of_time = in.flag();
  in.finish();
}

}  // namespace

std::string encode(const Plan& plan) {
  require_valid(plan);
  ByteWriter out(kPlanMagic, kPlanVersion);
  out.count(plan.devices.size());
  out.choice(plan.precision);
  write_rest(out, plan);
  return std::move(out).take();
}

Plan decode_plan(std::string_view bytes, std::vector<DevicePtr> devices) {
  ByteReader in("plan", bytes, kPlanMagic, kPlanVersion);
  const size_t wanted = in.count(1);
  const auto precision = in.choice(Precision::bf16);
  require(devices.size() == wanted, "plan: needs ", wanted, " devices, as the root has, got ", devices.size(),
          "; give every rank the same config");
  require_devices(devices, precision, "plan");
  Plan plan;
  plan.devices = std::move(devices);
  plan.precision = precision;
  try {
    read_rest(in, plan);
    require_valid(plan);
  } catch (const UsageError& error) {  // the devices are right, so that the bytes are not
    throw DataError(join("plan: needs bytes that make a right plan, got a wrong one (", error.what(), "); was it damaged on its way?"));
  }
  return plan;
}

Plan planned_by_root(Group* group, std::vector<DevicePtr> devices, const std::function<Plan()>& make) {
  if (!group) return make();
  Plan made;
  const std::string bytes = on_root(group, [&] { return encode(made = make()); });
  return group->is_root() ? made : decode_plan(bytes, std::move(devices));
}

}  // namespace sluice::parallel
