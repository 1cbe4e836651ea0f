#include "core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/wait_before_free.h"

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
  void release(void* memory, size_t) noexcept override { std::free(memory); }
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
    const size_t largest = source_->is_bounded() ? bytes : bytes + bytes / 4;
    for (auto found = least_kept(bytes); found != kept_.end() && found->bytes <= largest; ++found) {
      auto& [size, blocks] = *found;
      if (blocks.empty()) continue;
      const Block block{blocks.back(), size};  // the one used last: it may still be in the cache
      blocks.pop_back();
      kept_bytes_ -= size;
      return block;
    }
  }
  return {allocate(bytes), bytes};
}

void* Arena::allocate(size_t bytes) {
  for (;;) {
    const uint64_t seen = source_->changes();
    if (void* data = source_->allocate(bytes)) return data;
    if (trim(bytes) > 0 || source_->reclaim(bytes)) continue;
    if (source_->changes() == seen) throw std::bad_alloc();  // else another device gave back what was looked for elsewhere
  }
}

void Arena::give_back(Block block, std::vector<Event> others) noexcept {
  std::erase_if(others, has_passed);
  std::lock_guard lock(mutex_);
  if (others.empty()) return keep(block);
  try {
    waiting_.push_back({block, others});
  } catch (...) {  // no memory to remember it by
    std::ranges::for_each(others, wait_before_free);
    source_->release(block.data, block.bytes);
  }
}

void Arena::keep(Block block) noexcept {
  if (!keeps_blocks()) return source_->release(block.data, block.bytes);
  try {
    auto of_size = least_kept(block.bytes);
    if (of_size == kept_.end() || of_size->bytes != block.bytes) of_size = kept_.insert(of_size, {block.bytes, {}});
    of_size->blocks.push_back(block.data);
    kept_bytes_ += block.bytes;
    source_->note_kept();
  } catch (...) {
    source_->release(block.data, block.bytes);
  }
}

void Arena::collect_waiting() noexcept {
  std::erase_if(waiting_, [this](const Waiting& entry) {
    if (!std::ranges::all_of(entry.others, has_passed)) return false;
    keep(entry.block);
    return true;
  });
}

/// Of one block: the smallest that has the bytes, else the largest.
size_t Arena::release_kept(size_t bytes) noexcept {
  std::erase_if(kept_, [](const Kept& of_size) { return of_size.blocks.empty(); });
  auto best = least_kept(bytes);
  if (best == kept_.end()) --best;
  auto& [size, blocks] = *best;
  source_->release(blocks.back(), size);
  blocks.pop_back();
  kept_bytes_ -= size;
  return size;
}

size_t Arena::release_waiting() noexcept {
  const Waiting entry = std::move(waiting_.back());
  waiting_.pop_back();
  std::ranges::for_each(entry.others, wait_before_free);
  source_->release(entry.block.data, entry.block.bytes);
  return entry.block.bytes;
}

size_t Arena::trim(size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  size_t given = 0;
  while (given < bytes && kept_bytes_ > 0) given += release_kept(bytes - given);
  while (given < bytes && !waiting_.empty()) given += release_waiting();
  return given;
}

size_t Arena::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace sluice
