#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <typeindex>

#include "core/cuda/gpu_memory.h"
#include "core/cuda/graph.h"
#include "core/event.h"

struct CUstream_st;

namespace sluice {

/// Why no GPU can be used: no such backend in this build, no driver, no device. Empty when there is one.
std::string cuda_unavailable_reason();
/// GPUs of this machine; 0 where none can be used.
int cuda_device_count();

/// What a GPU says of itself.
struct GpuDescription {
  std::string name;
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  int64_t memory_bytes = 0, free_bytes = 0;
  int driver_version = 0;                     ///< newest CUDA that the driver serves: 13000 for 13.0
  double clock_hz = 0, bytes_per_second = 0;  ///< largest clock; memory clock x bus width
};
/// Errors  UsageError when there is no such GPU, saying why.
GpuDescription describe_gpu(int index);

/// What a CUDA kernel gets: one GPU, the stream of its device, and what library calls need. Sources that call CUDA are nvcc's, or lie in
/// core/cuda; this header needs none of CUDA's.
///
/// Kernels and copies of one device run in the order of their calls, long after these have returned. A kernel that fails makes a later
/// call throw DeviceError; with SLUICE_SYNC=1 in the environment every launch waits, so that the failing one is named.
/// Threads  one at a time, like the device's kernels; `record` and the memory functions: any.
class Cuda {
 public:
  /// Memory of the device's one workspace, which library calls use in stream order.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
  static constexpr int64_t kReportBytes = 4096;  ///< of what goes to the host at once: the record of faults, and numbers (read())
  /// Both, counted as live bytes of the device from the start.
  static constexpr int64_t kOwnBytes = kWorkspaceBytes + kReportBytes;

  Cuda(int index, bool allow_tf32, int64_t budget_bytes);
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  int index() const { return index_; }
  CUstream_st* stream() const { return stream_; }
  const GpuDescription& description() const { return description_; }
  int multiprocessors() const { return description_.multiprocessors; }
  int compute_capability() const { return description_.compute_capability; }
  bool allows_tf32() const { return allow_tf32_; }
  void* workspace() const { return workspace_; }
  /// Makes this GPU the calling thread's current one, as every call of CUDA needs.
  void activate() const;
  /// activate(), and the place at which a graph begins, where kernels are captured: before each of them.
  void begin_kernel() {
    activate();
    graphs_->begin();
  }
  GraphCapture& graphs() { return *graphs_; }

  /// @name Order
  /// @{
  Event record(bool with_time = false) const;
  void wait_for(const Event& event) const;  ///< this device's later work waits; the caller does not
  /// Until all work is done. Errors  DeviceError with the failed call; UsageError for a bad index that a kernel met (see Faults).
  void synchronize() { read({}); }
  /// A number of at most 8 bytes on the device, and where it goes.
  struct Number {
    const void* device;
    void* host;
    size_t bytes;
  };
  /// The same as synchronize(), and reads numbers: with the record of faults by one copy into pinned memory, as long as they fit into
  /// kReportBytes.
  void read(std::span<const Number> numbers);
  /// @}

  /// @name Memory
  /// @{
  void* allocate(size_t bytes) const;  ///< null when the budgets or the GPU have none left
  void release(void* memory, size_t bytes) const noexcept;
  GpuMemory& memory() const { return *memory_; }
  /// The host memory may change on return. Goes through 32 MiB of pinned host memory, which the device takes with its first transfer and
  /// keeps; like all that the process holds beside tensors on CPU devices it is in no device's budget.
  void upload(const void* host, void* device, size_t bytes);
  /// Waits. Through the same pinned memory, but for 64 KiB and less, which the driver brings through its own.
  void download(const void* device, void* host, size_t bytes);
  void copy_from(const Cuda& other, const void* from, void* to, size_t bytes);  ///< device to device, also between GPUs
  /// The same from another GPU, on a stream for that pair alone, so that it overlaps this device's work and no transfer waits for one of
  /// another pair. It begins when both events have passed; returns the one at which it has ended.
  /// Threads  any.
  Event receive(const Cuda& other, const void* from, void* to, size_t bytes, const Event& ready, const Event& free);
  /// @}

  /// Bad indices that kernels met. A kernel cannot throw: it keeps the first one here and goes on with NaN, and `synchronize` throws.
  enum class FaultKind { embedding_id, target_class, query_length, key_length, index, kinds };
  struct Faults {
    /// position << 32 | low 32 bits of the value, the least of all; all ones for none.
    unsigned long long first[static_cast<int>(FaultKind::kinds)];
    long long limit[static_cast<int>(FaultKind::kinds)];
  };
  static constexpr size_t kFaultsBytes = 128;  ///< of the report, whose numbers begin there
  static_assert(sizeof(Faults) <= kFaultsBytes);
  Faults* faults() const { return reinterpret_cast<Faults*>(report_); }

  /// What a library keeps for this device (a handle, compiled plans): made at the first use, gone with the device.
  template <class State>
  State& state() {
    auto& slot = states_[std::type_index(typeid(State))];
    if (!slot) slot = std::make_shared<State>(*this);
    return *static_cast<State*>(slot.get());
  }

 private:
  void check_faults(const Faults& found);
  CUstream_st* stream_from(const Cuda& other);
  struct Staging;
  Staging& staging();
  static constexpr size_t kDriversOwn = size_t{64} << 10;
  int index_;
  bool allow_tf32_;
  GpuDescription description_;
  std::shared_ptr<GpuMemory> memory_;
  CUstream_st* stream_ = nullptr;
  void* workspace_ = nullptr;
  char *report_ = nullptr, *report_on_host_ = nullptr;  ///< the second is pinned
  std::mutex staging_turn_;                             ///< guards the next one: transfers of several threads take turns
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<GraphCapture> graphs_;
  std::map<std::type_index, std::shared_ptr<void>> states_;
  std::mutex receiving_;                           ///< guards the next one
  std::map<const Cuda*, CUstream_st*> receivers_;  ///< by sender: streams of transfers
};

}  // namespace sluice
