#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

/// What is given, or open. No std::variant: whoever makes PlanOptions would compile it. Only a T itself is taken: an int64_t, a double or a
/// bool that became a number of micro-batches by itself would be another number without a word.
template <class T>
class OrOpen {
 public:
  OrOpen(std::same_as<T> auto given) : given_(std::move(given)), is_given_(true) {}
  OrOpen(Open) {}

  /// Null where it is open.
  const T* given() const { return is_given_ ? &given_ : nullptr; }

 private:
  T given_{};
  bool is_given_ = false;
};

/// What follows a rule, is given, or is open.
template <class Rule, class Given>
class RuleOrGiven {
 public:
  RuleOrGiven(Open) {}
  RuleOrGiven(Rule rule) : rule_(rule) {}
  RuleOrGiven(Given given) : given_(std::move(given)) {}

  bool is_open() const { return !rule() && !given(); }
  /// Null for other choices.
  const Rule* rule() const { return rule_.given(); }
  const Given* given() const { return given_.given(); }

 private:
  OrOpen<Rule> rule_ = kOpen;
  OrOpen<Given> given_ = kOpen;
};

/// A number >= 1, or open.
using CountChoice = OrOpen<int>;

/// Which devices a replica has; open: where devices differ or are in several hosts, those that make the faster step.
using ReplicaDevicesChoice = OrOpen<ReplicaDevices>;

/// What stages are equal in, as far as whole nodes allow.
enum class PartitionRule { uniform, parameters };  ///< uniform: numbers of nodes

/// Where the nodes are cut into stages: anywhere, by a rule, or as given.
using PartitionChoice = RuleOrGiven<PartitionRule, Partition>;

/// How many of the nodes compute their activations again in the backward.
enum class Remat { none, full };
std::string_view name_of(Remat remat);  ///< "none" or "full"
std::ostream& operator<<(std::ostream& out, Remat remat);

/// Those that do, by name.
struct RematNodes {
  std::vector<std::string> names;
};

/// Which nodes compute their activations again: none or all of them, those that are named, or as many as the budgets ask for.
using RematChoice = RuleOrGiven<Remat, RematNodes>;

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
