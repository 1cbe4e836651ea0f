#include "core/file/hash.h"

#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

namespace sluice {

Hash::Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

void Hash::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hash& Hash::add(const void* data, size_t bytes) {
  XXH3_128bits_update(state_.get(), data, bytes);
  return *this;
}

std::string Hash::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  return digits;
}

std::string hash_of(std::string_view bytes) { return Hash().add(bytes.data(), bytes.size()).text(); }

}  // namespace sluice
