#include "core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace sluice {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class SystemMemory : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    const size_t alignment = bytes >= kHugePage ? kHugePage : Arena::kAlignment;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data && alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }
  void release(void* memory) noexcept override { std::free(memory); }
};

bool keeps_blocks() {
  static const bool keeps = [] {
    const char* value = std::getenv("SLUICE_KEEP_MEMORY");
    return !value || std::strcmp(value, "0") != 0;
  }();
  return keeps;
}

}  // namespace

std::unique_ptr<MemorySource> system_memory() { return std::make_unique<SystemMemory>(); }

Arena::~Arena() { trim(); }

Arena::Block Arena::take(size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    collect_waiting();
    for (auto found = kept_.lower_bound(bytes); found != kept_.end() && found->first <= bytes + bytes / 4; ++found) {
      auto& [size, blocks] = *found;
      if (blocks.empty()) continue;
      const Block block{blocks.back(), size};  // the one used last: it may still be in the cache
      blocks.pop_back();
      kept_bytes_ -= size;
      return block;
    }
  }
  void* data = source_->allocate(bytes);
  if (!data) {
    trim();
    data = source_->allocate(bytes);
  }
  if (!data) throw std::bad_alloc();
  return {data, bytes};
}

void Arena::give_back(Block block, std::vector<Event> others) noexcept {
  std::erase_if(others, has_passed);
  std::lock_guard lock(mutex_);
  if (others.empty()) return keep(block);
  try {
    waiting_.push_back({block, others});
  } catch (...) {  // no memory to remember it by
    std::ranges::for_each(others, wait_until);
    source_->release(block.data);
  }
}

void Arena::keep(Block block) noexcept {
  if (!keeps_blocks()) return source_->release(block.data);
  try {
    kept_[block.bytes].push_back(block.data);
    kept_bytes_ += block.bytes;
  } catch (...) {
    source_->release(block.data);
  }
}

void Arena::collect_waiting() noexcept {
  std::erase_if(waiting_, [this](const Waiting& entry) {
    if (!std::ranges::all_of(entry.others, has_passed)) return false;
    keep(entry.block);
    return true;
  });
}

void Arena::trim() noexcept {
  std::lock_guard lock(mutex_);
  for (const Waiting& entry : waiting_) {
    std::ranges::for_each(entry.others, wait_until);
    source_->release(entry.block.data);
  }
  waiting_.clear();
  for (const auto& [size, blocks] : kept_)
    for (void* data : blocks) source_->release(data);
  kept_.clear();
  kept_bytes_ = 0;
}

size_t Arena::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace sluice
