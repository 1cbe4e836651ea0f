#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/search.h"

namespace sluice::parallel {

/// What devices were counted to hold, beside their own bytes, in plans that a search came to. What was counted of a device is that of every
/// plan that does the same on it.
/// Threads  one.
class CountedBytes {
 public:
  /// By device. A plan's count: some milliseconds, more for a large model.
  using Count = std::function<std::vector<int64_t>(const FoundPlan&)>;

  /// Searches may count so many plans. `topology`  lives as long.
  CountedBytes(const Topology& topology, Count count, int most_plans) : topology_(topology), count_(std::move(count)), left_(most_plans) {}

  bool may_count() const { return left_ > 0; }
  /// Counts a plan, with leave or without. Returns the bytes of its devices.
  std::vector<int64_t> count(const FoundPlan& plan);
  /// Nothing where it was not counted.
  std::optional<int64_t> of(const FoundPlan& plan, int device) const;

  /// What the latest count of the same stages in the same order was above the estimate, whatever they recompute; of others the first count of
  /// the order on that device, and 0 where there is none.
  int64_t error(const Schedule& schedule, const Partition& stages, int device) const;
  /// Whether those very stages were counted.
  bool knows(const Schedule& schedule, const Partition& stages, int device) const;
  /// Whether any stages were counted in this order.
  bool knows(const Schedule& schedule) const;

 private:
  std::string key_of_work(const FoundPlan& plan, int device) const;

  const Topology& topology_;
  Count count_;
  int left_;
  std::map<std::string, int64_t> bytes_;   ///< by order, stages, segments and marks
  std::map<std::string, int64_t> errors_;  ///< by order and stages, and by order alone
};

}  // namespace sluice::parallel
