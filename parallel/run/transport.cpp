#include "parallel/run/transport.h"

namespace sluice::parallel {

std::ostream& operator<<(std::ostream& out, const MessageKey& key) {
  return out << "value " << key.transfer.value << " from " << key.transfer.from << " to " << key.transfer.to << ", micro-batch "
             << key.micro_batch;
}

void require_room(const Place& place, const MessageKey& key) {
  require(place.room.defined(), "pipeline: needs to know the shape of what comes from another rank, and ", key,
          " is made by a module that looks at elements, or from the value of one; make it of shapes alone, or keep it on the rank that "
          "reads it");
}

/// A sum, so that one message has another label in each of 256 runs.
uint8_t label_of(const MessageKey& key, uint8_t run) { return static_cast<uint8_t>(hash_of(key.transfer, key.micro_batch) + run); }

}  // namespace sluice::parallel
