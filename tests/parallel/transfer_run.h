#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/run/device_ranks.h"
#include "parallel/run/transport.h"

namespace sluice::testing {

/// The transfers of a program without its computations: tensors whose elements follow from their names, some gradients left out. What was
/// sent is overwritten when the sender may, and rooms hold other numbers until they may be written, so that a transfer which runs too
/// early or too late shows.
class TransferRun {
 public:
  /// A tensor has `smallest` to `largest` elements.
  TransferRun(parallel::Program program, int smallest, int largest);

  /// What each receive got, by device and message; nothing for what was left out.
  using Arrived = std::map<std::pair<int, parallel::MessageKey>, std::optional<std::vector<double>>>;

  const parallel::Program& program() const { return program_; }
  /// All devices over the local transport.
  Arrived alone(const std::function<DevicePtr(int)>& device) const;
  /// The devices of one rank, each on a thread of its own. `devices` are those of the whole job; null elsewhere.
  Arrived on_rank(const std::vector<DevicePtr>& devices, const parallel::DeviceRanks& ranks, parallel::Transport& transport) const;
  /// What comes from devices of other ranks.
  int64_t bytes_from_ranks(const parallel::DeviceRanks& ranks) const;

 private:
  Arrived run_device(int device, const std::vector<DevicePtr>& devices, const parallel::DeviceRanks& ranks,
                     parallel::Transport& transport) const;
  bool is_left_out(const parallel::MessageKey& key) const;
  int elements_of(const parallel::MessageKey& key) const;

  const parallel::Program program_;
  const int smallest_, largest_;
};

}  // namespace sluice::testing
