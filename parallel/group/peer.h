#pragma once
#include "core/error.h"

namespace sluice::parallel {

/// Errors  UsageError unless `peer` is another rank of the group.
inline void check_peer(const char* call, int rank, int size, int peer) {
  require(size > 1, "group: ", call, " needs another rank, got a job of one process; start more of them, as mpirun does");
  require(0 <= peer && peer < size && peer != rank, "group: ", call, " needs a rank from 0 to ", size - 1, " other than its own ", rank,
          ", got ", peer);
}

/// Errors  UsageError unless the group has that channel.
inline void check_channel(const char* call, int channels, int channel) {
  require(0 <= channel && channel < channels, "group: ", call, " needs a channel from 0 to ", channels - 1, ", got ", channel,
          "; use fewer channels");
}

}  // namespace sluice::parallel
