#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/group/group.h"

namespace sluice::cli {

/// The ranks that an MPI launcher started this command as; most often one. Ranks but the root keep silent, errors of their own aside.
class Job {
 public:
  /// Joins the job. Errors  as parallel::join_job().
  Job();

  bool is_root() const { return group_->is_root(); }
  /// Null for one process.
  std::shared_ptr<parallel::Group> ranks() const { return group_->size() > 1 ? group_ : nullptr; }
  /// The devices of this rank's host, of so many of the job. Errors  as parallel::DeviceRanks.
  std::vector<int> devices_of_host(int devices) const;
  /// A rank that is not heard of for so long, or for some seconds where that is less, has failed; until this is called, for as long as
  /// pipeline.timeout is where nobody sets it.
  void set_watchdog(double seconds) const;
  /// "4 ranks: 0 and 1 on a, 2 and 3 on b"; empty for one process.
  std::string text() const;

  /// What the command does, then its end on all ranks. An error that all ranks throw alike (parallel::ThrownByAll) ends them in order.
  /// After any other one the rest of the job is told, the error is printed, and the process ends at once with its exit code: others may
  /// never come back.
  int run(const std::function<int()>& command);

 private:
  std::shared_ptr<parallel::Group> group_;
  std::vector<std::string> hosts_;  ///< by rank
};

}  // namespace sluice::cli
