#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::training {

/// What the evaluations of one training showed, which of them was the best, and for how many nothing was better.
class EvaluationHistory {
 public:
  struct Entry {
    int64_t step = 0;  ///< steps done when it was made
    double loss = 0;
    std::map<std::string, double> metrics;
    bool operator==(const Entry&) const = default;
  };

  /// `watched`  "loss", of which less is better, or the name of a metric, of which more is.
  explicit EvaluationHistory(std::string watched = "loss") : watched_(std::move(watched)) {}

  const std::vector<Entry>& entries() const { return entries_; }
  /// Adds an entry, in the order of steps; one of a step that is there already takes its place.
  /// Errors  UsageError when it lacks what is watched, naming what it has.
  void add(Entry entry);
  /// The best entry, of equal ones the first; numbers that are not finite are never better. Null where there is none.
  /// `every`  of those at multiples of so many steps alone, at least 1: another one was made where an earlier run of the training ended.
  const Entry* best(int64_t every = 1) const;
  /// Entries since the best one, of the same.
  int since_best(int64_t every = 1) const;

  /// As JSON, and back: what read() gives is added to what is there.
  std::string text() const;
  /// Errors  DataError naming `name` for another text.
  void read(const std::string& text, const std::string& name);

 private:
  double watched(const Entry& entry) const;

  std::string watched_;
  std::vector<Entry> entries_;
};

}  // namespace sluice::training
