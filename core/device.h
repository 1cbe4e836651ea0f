#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/event.h"

namespace sluice {

class Arena;
class Cpu;
class Cuda;
struct GpuDescription;

enum class DeviceKind { cpu, cuda, meta };
std::string_view name_of(DeviceKind kind);  ///< "cpu", "cuda", "meta"
std::ostream& operator<<(std::ostream& out, DeviceKind kind);

/// What one run of an op takes. Units: floating-point operations and bytes of compulsory traffic.
struct Cost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;

  Cost& operator+=(const Cost& other);
  Cost operator-(const Cost& other) const;
};

/// What the kernels of one kind took on a device.
struct KernelTally {
  int64_t calls = 0;
  Cost cost;
  double seconds = 0;  ///< on the device's clock where it is a meta device, else measured
};
/// By kind of kernel: op and dtype, "attention_backward f32".
using KernelTallies = std::map<std::string, KernelTally, std::less<>>;

/// Speeds of a device, for the clock of a `meta` device.
struct DeviceSpeed {
  double flops_per_second = 1e12;
  double bytes_per_second = 1e11;       ///< of its memory
  double link_bytes_per_second = 1e11;  ///< of a transfer to another device
  double link_latency_seconds = 0;
  double host_link_bytes_per_second = 0;  ///< of a transfer to a device of another host; 0: as to others
  double host_link_latency_seconds = 0;
  /// By op: the fraction that its kernels reach of the nearer limit, of arithmetic or of memory. For ops that are not named "other" counts,
  /// and without it the whole limit.
  std::map<std::string, double, std::less<>> efficiency{};
  double launch_seconds = 0;  ///< a host launches kernels one after another, each in this time: so none takes less

  double efficiency_of(std::string_view op) const;
  bool operator==(const DeviceSpeed&) const = default;
};

/// Live bytes would pass the budget, or the system has no memory left.
struct OutOfMemory : ResourceError {
  using ResourceError::ResourceError;
};

inline constexpr int64_t kUnlimited = INT64_MAX;

/// A kind, an index, an allocator with a byte budget, and counters of what ran.
///
/// `cpu:0` and `cpu:1` are two virtual devices of one machine, each with its own arena, budget and intra-op threads. `cuda:0` is a GPU
/// with a stream of its own; several devices may share one. `meta` devices allocate nothing and run no kernel: they count bytes,
/// operations and, from `DeviceSpeed`, time.
/// Bytes are counted as if every device had a memory of its own: a tensor handed to another device is charged there, even where
/// no byte is copied (Tensor::charged_to). So the count is a function of the program, equal on cpu and meta.
/// Threads  counters and allocation: any. Kernels of one device: one thread at a time.
class Device {
 public:
  struct Options {
    int64_t budget_bytes = kUnlimited;
    int threads = 1;                          ///< intra-op threads of a CPU device
    DeviceSpeed speed{};                      ///< of a meta device
    DeviceKind stands_for = DeviceKind::cpu;  ///< of a meta device: the kind whose bytes it counts
    bool allow_tf32 = false;                  ///< of a CUDA device: products of f32 may round their factors to 10 bits of mantissa
    std::string model{};                      ///< of a meta device with a description: what its name begins with, "h200"
    int host = 0;                             ///< the number of the host that it is in, for plans
    bool tallies_kernels = false;  ///< keeps what each kind of kernel takes (kernels()); a CUDA device then waits for every kernel
    static constexpr int kOfIndex = -1;
    int gpu = kOfIndex;  ///< of a CUDA device: which GPU of this machine it is, where its name counts otherwise
    int gpu_of(int index) const { return gpu == kOfIndex ? index : gpu; }
    /// Of a CUDA device that another process has: the GPU there. Here it has a name, a budget and counters, and neither memory nor kernels.
    std::shared_ptr<const GpuDescription> elsewhere{};
  };
  Device(DeviceKind kind, int index, Options options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  /// Of a CUDA device: which GPU of its machine it is.
  int gpu() const { return options_.gpu_of(index_); }
  std::string name() const;  ///< "cpu:0"
  /// The kind whose kernels and scratch memory an op allocates for: its own, or the one that a meta device stands for.
  DeviceKind backend() const { return kind_ == DeviceKind::meta ? options_.stands_for : kind_; }
  int64_t budget_bytes() const { return options_.budget_bytes; }
  /// Errors  UsageError for a budget <= 0.
  void set_budget_bytes(int64_t bytes);
  const Options& options() const { return options_; }

  int64_t live_bytes() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() { peak_.store(live_.load()); }

  /// Counts bytes as live. Errors  OutOfMemory naming device, place, bytes asked, live and budget; nothing is counted then.
  void charge(int64_t bytes);
  void release(int64_t bytes) noexcept { live_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// The counted size of a tensor of `bytes`: a multiple of the arena's alignment.
  static int64_t charged_size(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  /// Adds the cost of a kernel to the counters; on `meta` the clock advances by the larger of arithmetic and traffic time, over the
  /// efficiency that the op has there. `dtype`  of the kind that is tallied.
  void count(const Cost& cost, std::string_view op = {}, DType dtype = DType::f32);
  /// Adds the measured time of a kernel to its kind.
  void count_seconds(double seconds, std::string_view op, DType dtype);
  /// Since it was made or they were cleared; empty unless Options::tallies_kernels.
  KernelTallies kernels() const;
  void clear_kernels();
  Cost counted() const;
  double clock_seconds() const;
  void set_clock(double seconds);

  /// @name Order of work, which is asynchronous on CUDA devices only
  /// @{
  Event record(bool with_time = false) const;
  /// Work enqueued from now on waits for the event, which may be another device's.
  void wait_for(const Event& event) const;
  /// Until all work is done. Errors  what a kernel could not throw.
  void synchronize();
  /// @}

  /// What its CPU kernels run on.
  Cpu& cpu();
  /// Only of a CUDA device that is not elsewhere.
  Cuda& cuda();
  const Cuda& cuda() const;
  Arena& arena();

 private:
  DeviceKind kind_;
  int index_;
  Options options_;
  std::atomic<int64_t> live_{0}, peak_{0};
  struct Parts;  ///< what no other header sees: GPU, arena, threads, and counters of what ran
  std::unique_ptr<Parts> parts_;
};

using DevicePtr = std::shared_ptr<Device>;

/// Its name: a message that is given the device makes the name on failure only.
std::ostream& operator<<(std::ostream& out, const Device& device);

/// The GPU of a CUDA device, also of one elsewhere, as it was when the device was made.
GpuDescription describe_gpu(const Device& device);

/// "cuda:1" in parts.
struct DeviceName {
  std::string kind;
  int index;
};
/// The names in a list such as devices() takes. Errors  UsageError naming the form.
std::vector<DeviceName> device_names(std::string_view list);

/// A new device from "cpu:0", "cpu" (= cpu:0), "cuda:1", "meta:3", or "h200:0" and "my-device.toml:0": a meta device with the memory and
/// speed (in bf16) that a description in core/devices or a file says, for plans. Each call makes a device with counters of its own.
/// Errors  UsageError for an unknown kind or index, naming the form; for a GPU that is not there, what is missing.
DevicePtr make_device(std::string_view name, Device::Options options = {});

/// New devices from "cpu:0,cpu:1", "4x meta" (= meta:0 .. meta:3) or "8x a100".
std::vector<DevicePtr> devices(std::string_view list, Device::Options options);
std::vector<DevicePtr> devices(std::string_view list);

/// The device of tensors that name none: cpu:0, one thread, no budget; lives as long as the process.
const DevicePtr& default_device();

}  // namespace sluice
