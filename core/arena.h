#pragma once
#include <cstddef>
#include <map>
#include <mutex>

namespace sluice {

/// Memory blocks of one CPU device, kept for reuse: a fresh page costs about ten times a warm one (docs/performance.md).
/// Blocks are aligned to 64 bytes. A request is served by the smallest kept block that is at most a quarter larger, else by the system.
/// Threads  any; one mutex.
/// Owns     every kept block; a block that is out is owned by whoever took it, and must be given back before the arena dies.
class Arena {
 public:
  static constexpr size_t kAlignment = 64;

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };
  /// Errors  std::bad_alloc when the system has no memory, after the kept blocks were given back to it.
  Block take(size_t bytes);
  void give_back(Block block) noexcept;
  /// Gives all kept blocks back to the system.
  void trim() noexcept;
  size_t kept_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::multimap<size_t, void*> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace sluice
