#include "core/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace sluice {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* system_allocate(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : Arena::kAlignment;
  void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data && alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

Arena::~Arena() { trim(); }

Arena::Block Arena::take(size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    const auto found = kept_.lower_bound(bytes);
    if (found != kept_.end() && found->first <= bytes + bytes / 4) {
      const Block block{found->second, found->first};
      kept_bytes_ -= found->first;
      kept_.erase(found);
      return block;
    }
  }
  void* data = system_allocate(bytes);
  if (!data) {
    trim();
    data = system_allocate(bytes);
  }
  if (!data) throw std::bad_alloc();
  return {data, bytes};
}

void Arena::give_back(Block block) noexcept {
  std::lock_guard lock(mutex_);
  try {
    kept_.emplace(block.bytes, block.data);
    kept_bytes_ += block.bytes;
  } catch (...) {  // no memory to remember it by
    std::free(block.data);
  }
}

void Arena::trim() noexcept {
  std::lock_guard lock(mutex_);
  for (const auto& [bytes, data] : kept_) std::free(data);
  kept_.clear();
  kept_bytes_ = 0;
}

size_t Arena::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace sluice
