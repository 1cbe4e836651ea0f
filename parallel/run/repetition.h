#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "core/device.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

/// Whether on every device the third micro-batch and all later ones take what the second took: training in equal micro-batches, whose
/// actions each device runs in one order whatever the micro-batch, those of the first and the second one before those of the later ones;
/// where receives are posted does not matter. The first differs, as it makes what the others only add to; of a replica's blocks each has one.
/// `samples`  of the mini-batch.
bool repeats_micro_batches(const Program& program, int64_t samples);

/// Those of the replica that a device belongs to.
MicroBatchRange micro_batches_of_device(const Program& program, int device);

/// What the second micro-batch takes on a device that only counts, action by action, for the micro-batches that repeat it: it is the same for
/// all of them, and a large model has many.
/// Threads  one.
class Repetition {
 public:
  /// What one action takes.
  struct Taken {
    int64_t peak = 0, left = 0;  ///< bytes, beside those that were live before: at most, and after it
    Cost cost;
    double seconds = 0;
    int64_t wire_bytes = 0;  ///< of a Send or a Recv
  };

  Repetition(DevicePtr device, const MicroBatchRange& micro_batches)
      : device_(std::move(device)), first_(micro_batches.first), ended_(static_cast<size_t>(micro_batches.end), 0) {}
  ~Repetition() { device_->release(held_); }
  Repetition(const Repetition&) = delete;
  Repetition& operator=(const Repetition&) = delete;

  bool is_repeated(const Action& action) const { return action.micro_batch > first_ + 1; }
  /// What the repeated action takes, which has not ended yet.
  const Taken& taken(const Action& action) const {
    return action.kind == ActionKind::recv_post ? posts_.at(action.transfer) : taken_[ended_[action.micro_batch]];
  }

  /// Around an action that runs, of which the device keeps the peak. One that did not come to its end begins again.
  void begin();
  void end(const Action& action, double seconds, int64_t wire_bytes);
  /// Charges a repeated action's bytes, and counts its cost.
  void repeat(const Action& action);

 private:
  DevicePtr device_;
  int first_;                        ///< micro-batch of the device
  std::vector<size_t> ended_;        ///< by repeated micro-batch: how many of its actions, RecvPosts aside
  std::vector<Taken> taken_;         ///< by the second one's actions, RecvPosts aside
  std::map<Transfer, Taken> posts_;  ///< by the second one's RecvPosts
  int64_t live_ = 0, held_ = 0;
  Cost counted_;
};

}  // namespace sluice::parallel
