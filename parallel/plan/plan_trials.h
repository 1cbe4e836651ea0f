#pragma once
#include <map>
#include <optional>
#include <vector>

#include "parallel/plan/device_marks.h"
#include "parallel/plan/search.h"

namespace sluice::parallel {

/// One number of micro-batches with one family of schedules: what of a problem is searched at a time.
struct SearchPart {
  const PlanProblem& problem;
  const ScheduleFamily& family;
  const ModelCosts& costs;
  Schedule schedule;  ///< of the family by name: what its stages run while a cut is looked for

  SearchPart(const PlanProblem& problem, int micro_batches, const ScheduleFamily& family);

  int stages() const { return schedule.stage_count(); }
  int devices() const { return schedule.device_count(); }
  int nodes() const { return problem.topology.node_count(); }
  /// The cut that is fixed, or null.
  const Partition* cut() const;
  const std::optional<std::vector<bool>>& marks() const { return problem.choices.rematerialize; }
  bool is_open() const { return family.is_open; }
};

/// Times plans of one part, one after the other, and keeps the fastest one that fits in the result.
class PlanTrials {
 public:
  PlanTrials(const SearchPart& part, SearchWatch& watch, PlanSearchResult& result) : part_(part), watch_(watch), result_(result) {}

  /// Whether plans that do not fit are timed as well from now on, so that claims can be made.
  void note_what_is_ruled_out(bool notes) { notes_ruled_out_ = notes; }

  /// Returns the seconds of a plan of whole stages, infinite ones when it cannot be the fastest, or nothing when it does not fit.
  std::optional<double> consider(const Partition& partition, const std::vector<bool>& marks);
  /// The same with the least rematerialization that its devices need, where that is open.
  std::optional<double> consider(const Partition& partition);
  /// The bytes that its devices lack, whatever is rematerialized where that is open.
  int64_t missing_bytes(const Partition& partition);

 private:
  /// As far as its bytes go.
  enum class Fit { fits, seems_to_fit, seems_above, estimated_above, counted_above };

  std::optional<double> consider(const SegmentedPartition& cut, const std::vector<bool>& marks);
  const DeviceMarks& marks_of(const Partition& stages, int device);
  int64_t estimated_room(const Partition& stages, int device) const;
  bool may_be_less(const Partition& stages, int device, int64_t missing) const;
  void note_ruled_out(const FoundPlan& plan);
  std::optional<FoundPlan> faster_order(const FoundPlan& plan, const std::vector<StageCost>& stages, const StageCosts& chain);
  bool is_best(double seconds) const;
  bool is_slower_than_best(const Schedule& schedule, const std::vector<StageCost>& stages) const;
  Fit fit_of(const FoundPlan& plan) const;
  bool is_worth_counting(const FoundPlan& plan, Fit fit) const;
  bool keeps_to_budgets(const FoundPlan& plan, Fit fit);

  const SearchPart& part_;
  SearchWatch& watch_;
  PlanSearchResult& result_;
  bool notes_ruled_out_ = false;
  struct Chosen {
    std::optional<int64_t> room{};  ///< for which they were chosen
    DeviceMarks marks{};
  };
  std::map<std::vector<int>, Chosen> marks_;  ///< by device and its stages' nodes
};

}  // namespace sluice::parallel
