#pragma once
#include <functional>
#include <map>
#include <memory>

#include "core/tensor.h"
#include "parallel/run/transport.h"

namespace sluice::parallel {

/// One end of a channel between GPUs of two ranks: it moves the elements of tensors, one tensor after the other, in the order in which both
/// ends ask for them. Neither call waits, and each is made only when the other end is going to make its own without waiting for
/// anything: see GpuRankTransport.
/// Threads  one at a time for all links of a process; what the calls return: any.
/// Errors   CommError.
class GpuLink {
 public:
  /// Whether a transfer has ended: the memory is the caller's again, and a receiver's elements are there.
  using HasEnded = std::function<bool()>;

  virtual ~GpuLink() = default;
  /// Begins when `ready` has passed. The tensor is row-major and has elements.
  virtual HasEnded send(const Tensor& tensor, const Event& ready) = 0;
  /// Begins when `free` has passed.
  virtual HasEnded receive(const Tensor& room, const Event& free) = 0;
  /// Throws what went wrong meanwhile, of which no call has told.
  virtual void check() = 0;
  /// A transfer may be under way that never ends: from now on nothing is waited for, nor freed.
  virtual void abandon() noexcept = 0;
};

/// The ends that are on this rank, of channels between its devices and those of others.
using GpuLinks = std::map<ChannelEnds, std::unique_ptr<GpuLink>>;

}  // namespace sluice::parallel
