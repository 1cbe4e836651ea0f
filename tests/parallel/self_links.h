#pragma once
#include <memory>
#include <set>

#include "parallel/run/device_ranks.h"
#include "parallel/run/gpu_link.h"

namespace sluice::testing {

/// Links between ranks that are threads of one program and share one GPU, each a communicator of NCCL with itself: NCCL allows no two ranks on
/// one GPU, and a send to oneself only together with its receive. So a transfer begins when both ends have asked for it. It shows that
/// calls, events and bytes are right on a GPU, and nothing of orders that hang.
class SelfLinks {
 public:
  SelfLinks(int gpu, const std::set<parallel::ChannelEnds>& channels);
  ~SelfLinks();
  /// Those that end on the rank.
  parallel::GpuLinks of(const parallel::DeviceRanks& ranks) const;

 private:
  class Channel;
  class End;
  std::map<parallel::ChannelEnds, std::shared_ptr<Channel>> channels_;
};

}  // namespace sluice::testing
