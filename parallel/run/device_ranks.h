#pragma once
#include "parallel/group/group.h"

namespace sluice::parallel {

/// Which rank of a job has which device: consecutive ones, equally many each.
/// Threads  any.
class DeviceRanks {
 public:
  /// All devices in this process.
  explicit DeviceRanks(int devices) : devices_(devices), ranks_(1), rank_(0) {}
  /// Errors  UsageError when the ranks cannot have equally many.
  DeviceRanks(int devices, const Group& group) : devices_(devices), ranks_(group.size()), rank_(group.rank()) {
    require(devices % ranks_ == 0, "pipeline.devices: needs equally many devices for each of the job's ", ranks_, " ranks, got ", devices,
            "; start as many ranks as divide ", devices, ", or list ", (devices / ranks_ + 1) * ranks_, " devices");
  }

  int of(int device) const { return device / per_rank(); }
  bool is_here(int device) const { return of(device) == rank_; }
  int devices() const { return devices_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int per_rank() const { return devices_ / ranks_; }

 private:
  int devices_, ranks_, rank_;
};

}  // namespace sluice::parallel
