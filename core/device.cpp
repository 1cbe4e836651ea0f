#include "core/device.h"

#include <algorithm>
#include <charconv>

#include "build_config.h"
#include "core/cuda/cuda.h"
#include "core/gpu_speed.h"
#include "core/where.h"

namespace sluice {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

Cost Cost::operator-(const Cost& other) const {
  return {flops - other.flops, bytes_read - other.bytes_read, bytes_written - other.bytes_written};
}

namespace {

std::shared_ptr<Cuda> gpu_of(DeviceKind kind, int index, const Device::Options& options) {
  if constexpr (build::has_cuda)
    if (kind == DeviceKind::cuda) return std::make_shared<Cuda>(index, options.allow_tf32);
  return nullptr;
}

/// The memory of one GPU.
class GpuMemory : public MemorySource {
 public:
  explicit GpuMemory(std::shared_ptr<Cuda> gpu) : gpu_(std::move(gpu)) {}
  void* allocate(size_t bytes) override {
    if constexpr (build::has_cuda) return gpu_->allocate(bytes);
    return nullptr;
  }
  void release([[maybe_unused]] void* memory) noexcept override {
    if constexpr (build::has_cuda) gpu_->release(memory);
  }

 private:
  std::shared_ptr<Cuda> gpu_;
};

}  // namespace

Device::Device(DeviceKind kind, int index, Options options)
    : kind_(kind),
      index_(index),
      options_(options),
      cuda_(gpu_of(kind, index, options)),
      arena_(cuda_ ? std::make_unique<GpuMemory>(cuda_) : system_memory()),
      cpu_(options.threads) {
  set_budget_bytes(options.budget_bytes);
  if (backend() == DeviceKind::cuda) charge(Cuda::kWorkspaceBytes);
}

Device::~Device() = default;

std::string Device::name() const {
  const char* kind = kind_ == DeviceKind::cpu        ? "cpu:"
                     : kind_ == DeviceKind::cuda     ? "cuda:"
                     : backend() == DeviceKind::cuda ? "h200:"
                                                     : "meta:";
  return kind + std::to_string(index_);
}

void Device::set_budget_bytes(int64_t bytes) {
  require(bytes > 0, "device ", name(), ": needs a memory budget > 0, got ", bytes);
  options_.budget_bytes = bytes;
}

void Device::charge(int64_t bytes) {
  const int64_t before = live_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > options_.budget_bytes - before) {
    release(bytes);
    throw OutOfMemory(join(name(), ": out of memory", where().text(), ": asked for ", bytes, " bytes with ", before,
                           " live and a budget of ", options_.budget_bytes,
                           "; raise pipeline.memory, use more micro-batches, more stages or remat = \"full\""));
  }
  const int64_t now = before + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Device::count(const Cost& cost) {
  counted_ += cost;
  if (kind_ == DeviceKind::meta)
    clock_ +=
        std::max(cost.flops / options_.speed.flops_per_second, (cost.bytes_read + cost.bytes_written) / options_.speed.bytes_per_second);
}

Cost Device::counted() const { return counted_; }

Moment Device::record([[maybe_unused]] bool with_time) const {
  if constexpr (build::has_cuda)
    if (cuda_) return cuda_->record(with_time);
  return nullptr;
}

void Device::wait_for(const Moment& moment) const {
  if (!moment) return;
  if constexpr (build::has_cuda) cuda_ ? cuda_->wait_for(moment) : wait_until(moment);
}

void Device::synchronize() {
  if constexpr (build::has_cuda)
    if (cuda_) cuda_->synchronize();
}

namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int parse_count(std::string_view text, std::string_view whole) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc{} && end == text.data() + text.size() && value >= 0 && value < 65536, "device '", whole,
          "': needs the form cpu:0, cuda:0, meta:0 or '4x meta'");
  return value;
}

/// What the caller left open is an H200's.
Device::Options described_as_h200(Device::Options options) {
  options.stands_for = DeviceKind::cuda;
  if (options.speed == DeviceSpeed{}) options.speed = gpu_speed(h200(), Precision::bf16);
  if (options.budget_bytes == kUnlimited) options.budget_bytes = h200().memory_bytes;
  return options;
}

}  // namespace

DevicePtr make_device(std::string_view name, Device::Options options) {
  const auto colon = name.find(':');
  const std::string kind(name.substr(0, colon));
  const int index = colon == std::string_view::npos ? 0 : parse_count(name.substr(colon + 1), name);
  if (kind == "cuda") {
    const std::string reason = cuda_unavailable_reason();
    require(reason.empty(), "device '", name, "': ", reason, "; use cpu:N, or h200:N to plan for a GPU");
    require(index < cuda_device_count(), "device '", name, "': this machine has ", cuda_device_count(),
            " GPUs, the last is cuda:", cuda_device_count() - 1);
    return std::make_shared<Device>(DeviceKind::cuda, index, options);
  }
  if (kind == "h200") return std::make_shared<Device>(DeviceKind::meta, index, described_as_h200(options));
  require(kind == "cpu" || kind == "meta", "device '", name, "': unknown kind '", kind,
          "'; known are cpu, cuda, meta and h200, as in cpu:0");
  return std::make_shared<Device>(kind == "cpu" ? DeviceKind::cpu : DeviceKind::meta, index, options);
}

std::vector<DevicePtr> devices(std::string_view list, Device::Options options) {
  std::vector<DevicePtr> result;
  int next_index = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto item = trimmed(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const auto times = item.find("x ");
    if (times == std::string_view::npos) {
      result.push_back(make_device(item, options));
      continue;
    }
    const int count = parse_count(item.substr(0, times), item);
    for (int i = 0; i < count; ++i) result.push_back(make_device(join(trimmed(item.substr(times + 2)), ":", next_index++), options));
  }
  require(!result.empty(), "devices: needs at least one device, as in 'cpu:0,cpu:1' or '4x meta'");
  return result;
}

const DevicePtr& default_device() {
  static const DevicePtr device = make_device("cpu:0");
  return device;
}

}  // namespace sluice
