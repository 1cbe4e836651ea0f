#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/program/partition.h"
#include "parallel/program/replication.h"
#include "parallel/program/schedule.h"
#include "parallel/schedule/named.h"

/// What a user fixes of a plan, and what is left open. All that is open is chosen together.
namespace sluice::parallel {

/// Left to the search.
struct Open {};
inline constexpr Open kOpen{};

/// What is given, or open. No std::variant: whoever makes PlanOptions would compile it.
template <class T>
class OrOpen {
 public:
  OrOpen(std::same_as<T> auto given) : given_(given), is_given_(true) {}
  OrOpen(Open) {}

  /// Null where it is open.
  const T* given() const { return is_given_ ? &given_ : nullptr; }

 private:
  T given_{};
  bool is_given_ = false;
};

/// A number >= 1, or open.
using CountChoice = OrOpen<int>;

/// Which devices a replica has; open: where devices differ or are in several hosts, those that make the faster step.
using ReplicaDevicesChoice = OrOpen<ReplicaDevices>;

/// What stages are equal in, as far as whole nodes allow.
enum class PartitionRule { uniform, parameters };  ///< uniform: numbers of nodes

/// Where the nodes are cut into stages: anywhere, by a rule, or as given.
class PartitionChoice {
 public:
  PartitionChoice(Open) {}
  PartitionChoice(PartitionRule rule) : rule_(rule) {}
  PartitionChoice(Partition given) : given_(std::move(given)), is_given_(true) {}

  /// Null for other choices.
  const PartitionRule* rule() const { return rule_.given(); }
  const Partition* given() const { return is_given_ ? &given_ : nullptr; }

 private:
  OrOpen<PartitionRule> rule_ = kOpen;
  Partition given_;
  bool is_given_ = false;
};

/// How many of the nodes compute their activations again in the backward.
enum class Remat { none, full };
std::string_view name_of(Remat remat);  ///< "none" or "full"

/// Those that do, by name.
struct RematNodes {
  std::vector<std::string> names;
};

/// Which nodes compute their activations again: none or all of them, those that are named, or as many as the budgets ask for.
class RematChoice {
 public:
  RematChoice(Open) {}
  RematChoice(Remat all) : all_(all) {}
  RematChoice(RematNodes nodes) : nodes_(std::move(nodes)), has_nodes_(true) {}

  bool is_open() const { return !all() && !nodes(); }
  /// Null for other choices.
  const Remat* all() const { return all_.given(); }
  const RematNodes* nodes() const { return has_nodes_ ? &nodes_ : nullptr; }

 private:
  OrOpen<Remat> all_ = kOpen;
  RematNodes nodes_;
  bool has_nodes_ = false;
};

/// The order of work: a named one, the user's own, or open.
class ScheduleChoice {
 public:
  /// `virtual_stages`  stages a device, where the schedule leaves them open.
  /// Errors  UsageError for a number of stages that the schedule cannot have.
  ScheduleChoice(NamedSchedule schedule, CountChoice virtual_stages = 1);
  /// `fixed`'s micro-batches, stages and devices hold.
  /// Errors  UsageError for a schedule that is not a step of training.
  ScheduleChoice(Schedule fixed);
  /// Any order, on any placement of at most so many stages a device.
  /// Errors  UsageError for less than one.
  ScheduleChoice(Open open, CountChoice virtual_stages = kOpen);

  /// Null for other choices.
  const NamedSchedule* named() const { return named_.given(); }
  /// The user's own schedule; null for other choices.
  const Schedule* fixed() const { return fixed_.get(); }
  const CountChoice& virtual_stages() const { return virtual_stages_; }

 private:
  OrOpen<NamedSchedule> named_ = kOpen;
  CountChoice virtual_stages_ = kOpen;
  std::shared_ptr<const Schedule> fixed_;
};

}  // namespace sluice::parallel
