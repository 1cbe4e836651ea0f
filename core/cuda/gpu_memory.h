#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace sluice {

class Arena;
class Cuda;

/// The memory of one GPU. What cudaMalloc gives the devices on it never passes the sum of their budgets: the arenas' blocks, those that
/// they keep for reuse included, each device's workspace and record of faults, and memory for trials.
/// The sum, because stages on one GPU hand tensors over without a copy: a block may be one device's and counted on another.
/// Beside it lies what the driver and the libraries take on their own: the context, code, handles, graphs.
/// Threads  any.
class GpuMemory {
 public:
  /// The one of a GPU, which all devices on it share.
  static std::shared_ptr<GpuMemory> of(int index);
  explicit GpuMemory(int index) : index_(index) {}
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  /// A device that comes with a budget and takes `bytes` of it at once, for what it allocates without asking; and that leaves.
  void enter(const Cuda& device, int64_t budget_bytes, int64_t bytes);
  void leave(const Cuda& device, int64_t bytes) noexcept;
  void set_budget_bytes(const Cuda& device, int64_t bytes);
  /// Where a device keeps blocks, which others may need; null before it is gone.
  void set_arena(const Cuda& device, Arena* arena);
  /// Whether every device here has a budget.
  bool is_bounded() const { return limit_.load(std::memory_order_relaxed) != INT64_MAX; }

  /// Null when the budgets or the GPU have none left. Errors  DeviceError.
  void* allocate(size_t bytes);
  void release(void* memory, size_t bytes) noexcept;

  /// Frees blocks that arenas keep, about `bytes`, else waits for memory that is on its way back. False when there is neither.
  /// Threads  no capture of the calling thread is under way.
  bool reclaim(size_t bytes);
  /// See MemorySource.
  uint64_t changes() const { return changes_.load(); }
  void note_kept() noexcept { ++changes_; }
  /// Memory that comes back without its device's being asked: what a capture still uses, or a trial.
  void begin_return();
  void end_return() noexcept;

 private:
  struct Member {
    int64_t budget_bytes = 0;
    Arena* arena = nullptr;
  };
  bool take(int64_t bytes);
  void give_back(int64_t bytes) noexcept;
  void update_limit();

  const int index_;
  std::mutex entering_;  ///< guards the next two; taken before the other mutex, and before those of arenas
  std::map<const Cuda*, Member> members_;
  std::atomic<int64_t> limit_{0};  ///< the sum of the budgets
  std::atomic<uint64_t> changes_{0};
  std::mutex counting_;  ///< guards the rest
  std::condition_variable returned_;
  int64_t given_ = 0;     ///< bytes
  int returning_ = 0;     ///< pieces of memory on their way back
  uint64_t returns_ = 0;  ///< that ended
};

}  // namespace sluice
