#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/event.h"

namespace sluice {

/// Where an arena gets its memory: the system's, or a GPU's.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Null when there is none left.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) noexcept = 0;
  /// Gets memory back from others that keep it. False when nobody has any.
  virtual bool reclaim([[maybe_unused]] size_t bytes) { return false; }
  /// Of memory that several arenas share: grows whenever some of it may have become free, so that who found none knows to look again.
  virtual uint64_t changes() const { return 0; }
  /// An arena keeps a block that was out.
  virtual void note_kept() noexcept {}
  /// What it gives counts against a budget, down to the byte.
  virtual bool is_bounded() const { return false; }
};
std::unique_ptr<MemorySource> system_memory();

/// Memory blocks of one device, kept for reuse: a fresh page costs about ten times a warm one (docs/performance.md), and an allocation
/// on a GPU waits for all its work.
/// Blocks are aligned to 64 bytes. A request is served by the smallest kept block that is at most a quarter larger, or where memory is
/// bounded by one of just its size; else by the source, to which kept blocks of other sizes go back when it has no more.
/// The device's own work uses a block in the order of takes and give-backs, whenever it runs; for work of other devices give_back names
/// the events that have to pass before the block serves again.
/// With SLUICE_KEEP_MEMORY=0 in the environment nothing is kept, so that memory checkers see every block's own bounds and life.
/// Threads  any; one mutex.
/// Owns     every kept block; a block that is out is owned by whoever took it, and must be given back before the arena dies.
class Arena {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Arena(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };
  /// Errors  std::bad_alloc when the source has no memory, after the kept blocks were given back to it.
  Block take(size_t bytes);
  void give_back(Block block, std::vector<Event> others = {}) noexcept;
  /// Gives kept blocks back to the source until those have `bytes`, or all, after the events they wait for. Returns their bytes.
  size_t trim(size_t bytes = SIZE_MAX) noexcept;
  size_t kept_bytes() const;

 private:
  struct Kept {
    size_t bytes;
    std::vector<void*> blocks;
  };
  struct Waiting {
    Block block;
    std::vector<Event> others;
  };
  void* allocate(size_t bytes);
  /// The first of so many bytes or more.
  std::vector<Kept>::iterator least_kept(size_t bytes) { return std::ranges::lower_bound(kept_, bytes, {}, &Kept::bytes); }
  void keep(Block block) noexcept;
  void collect_waiting() noexcept;
  size_t release_kept(size_t bytes) noexcept;
  size_t release_waiting() noexcept;

  std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  std::vector<Waiting> waiting_;
  std::vector<Kept> kept_;  ///< by ascending size; one that is empty stays, as its blocks are about to come back
  size_t kept_bytes_ = 0;
};

}  // namespace sluice
