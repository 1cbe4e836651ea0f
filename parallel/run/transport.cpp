#include "parallel/run/transport.h"

namespace sluice::parallel {

std::ostream& operator<<(std::ostream& out, const MessageKey& key) {
  return out << "value " << key.transfer.value << " from " << key.transfer.from << " to " << key.transfer.to << ", micro-batch "
             << key.micro_batch;
}

uint8_t label_of(const MessageKey& key) { return static_cast<uint8_t>(hash_of(key.transfer, key.micro_batch)); }

}  // namespace sluice::parallel
