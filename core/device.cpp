#include "core/device.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <mutex>

#include "build_config.h"
#include "core/arena.h"
#include "core/cpu/cpu.h"
#include "core/cuda/cuda.h"
#include "core/device_description.h"
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

std::shared_ptr<Cuda> make_cuda(DeviceKind kind, int gpu, const Device::Options& options) {
  if constexpr (build::has_cuda)
    if (kind == DeviceKind::cuda && !options.elsewhere) return std::make_shared<Cuda>(gpu, options.allow_tf32, options.budget_bytes);
  return nullptr;
}

/// The memory of a GPU that another process has.
class NoMemory : public MemorySource {
 public:
  explicit NoMemory(std::string name) : name_(std::move(name)) {}
  void* allocate(size_t bytes) override {
    throw Error(join(name_, ": needs memory of its own for ", bytes,
                     " bytes, and this device is another rank's; this is a fault of Sluice, report it"));
  }
  void release(void*, size_t) noexcept override {}

 private:
  std::string name_;
};

/// The memory of a GPU, for one device on it.
class GpuSource : public MemorySource {
 public:
  explicit GpuSource(std::shared_ptr<Cuda> gpu) : gpu_(std::move(gpu)) {}
  void* allocate(size_t bytes) override {
    if constexpr (build::has_cuda) return gpu_->allocate(bytes);
    return nullptr;
  }
  void release([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) noexcept override {
    if constexpr (build::has_cuda) gpu_->release(memory, bytes);
  }
  bool reclaim([[maybe_unused]] size_t bytes) override {
    if constexpr (build::has_cuda) return gpu_->memory().reclaim(bytes);
    return false;
  }
  uint64_t changes() const override {
    if constexpr (build::has_cuda) return gpu_->memory().changes();
    return 0;
  }
  void note_kept() noexcept override {
    if constexpr (build::has_cuda) gpu_->memory().note_kept();
  }
  bool is_bounded() const override {
    if constexpr (build::has_cuda) return gpu_->memory().is_bounded();
    return false;
  }

 private:
  std::shared_ptr<Cuda> gpu_;
};

std::unique_ptr<MemorySource> memory_of(const Device& device, const std::shared_ptr<Cuda>& gpu) {
  if (device.options().elsewhere) return std::make_unique<NoMemory>(device.name());
  return gpu ? std::make_unique<GpuSource>(gpu) : system_memory();
}

}  // namespace

struct Device::Parts {
  explicit Parts(const Device& device)
      : gpu(make_cuda(device.kind(), device.gpu(), device.options())), arena(memory_of(device, gpu)), cpu(device.options().threads) {}

  std::shared_ptr<Cuda> gpu;  ///< null for other kinds
  Arena arena;
  Cpu cpu;
  mutable std::mutex counting;  ///< guards what follows
  Cost counted;
  KernelTallies kernels;
  double clock = 0;
};

Device::Device(DeviceKind kind, int index, Options options)
    : kind_(kind), index_(index), options_(std::move(options)), parts_(std::make_unique<Parts>(*this)) {
  set_budget_bytes(options_.budget_bytes);
  if (backend() == DeviceKind::cuda) {
    require<OutOfMemory>(options_.budget_bytes >= Cuda::kOwnBytes, name(), ": needs a budget of more than the ", Cuda::kOwnBytes,
                         " bytes that its libraries work in, got ", options_.budget_bytes, "; raise Device::Options::budget_bytes");
    charge(Cuda::kOwnBytes);
  }
  if constexpr (build::has_cuda)
    if (parts_->gpu) cuda().memory().set_arena(cuda(), &parts_->arena);
}

Device::~Device() {
  if constexpr (build::has_cuda)
    if (parts_->gpu) cuda().memory().set_arena(cuda(), nullptr);
}

Cpu& Device::cpu() { return parts_->cpu; }
Cuda& Device::cuda() { return *parts_->gpu; }
const Cuda& Device::cuda() const { return *parts_->gpu; }
Arena& Device::arena() { return parts_->arena; }

std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : kind == DeviceKind::cuda ? "cuda" : "meta"; }
std::ostream& operator<<(std::ostream& out, DeviceKind kind) { return out << name_of(kind); }

std::string Device::name() const { return join(options_.model.empty() ? name_of(kind_) : options_.model, ":", index_); }

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.name(); }

GpuDescription describe_gpu(const Device& device) {
  const auto& elsewhere = device.options().elsewhere;
  if (elsewhere) return *elsewhere;
  if constexpr (build::has_cuda) return device.cuda().description();
  return describe_gpu(device.gpu());  // says why there is none
}

void Device::set_budget_bytes(int64_t bytes) {
  require(bytes > 0, "device ", name(), ": needs a memory budget > 0, got ", bytes);
  options_.budget_bytes = bytes;
  if constexpr (build::has_cuda)
    if (parts_->gpu) cuda().memory().set_budget_bytes(cuda(), bytes);
}

void Device::charge(int64_t bytes) {
  const int64_t before = live_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > options_.budget_bytes - before) {
    release(bytes);
    throw OutOfMemory(join(name(), ": out of memory", where().text(), ": asked for ", bytes, " bytes with ", before,
                           " live and a budget of ", options_.budget_bytes,
                           "; raise Device::Options::budget_bytes, or use more micro-batches, more stages or more rematerialization"));
  }
  const int64_t now = before + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

double DeviceSpeed::efficiency_of(std::string_view op) const {
  const auto named = efficiency.find(op), found = named == efficiency.end() ? efficiency.find("other") : named;
  return found == efficiency.end() ? 1 : found->second;
}

namespace {

std::string kind_of_kernel(std::string_view op, DType dtype) { return join(op.empty() ? "other" : op, " ", name_of(dtype)); }

}  // namespace

void Device::count(const Cost& cost, std::string_view op, DType dtype) {
  double seconds = 0;
  if (const DeviceSpeed& speed = options_.speed; kind_ == DeviceKind::meta)
    seconds = std::max(std::max(cost.flops / speed.flops_per_second, (cost.bytes_read + cost.bytes_written) / speed.bytes_per_second) /
                           speed.efficiency_of(op),
                       speed.launch_seconds);
  std::lock_guard lock(parts_->counting);
  parts_->counted += cost;
  parts_->clock += seconds;
  if (!options_.tallies_kernels) return;
  KernelTally& tally = parts_->kernels[kind_of_kernel(op, dtype)];
  ++tally.calls;
  tally.cost += cost;
  tally.seconds += seconds;
}

void Device::count_seconds(double seconds, std::string_view op, DType dtype) {
  std::lock_guard lock(parts_->counting);
  parts_->kernels[kind_of_kernel(op, dtype)].seconds += seconds;
}

KernelTallies Device::kernels() const {
  std::lock_guard lock(parts_->counting);
  return parts_->kernels;
}

void Device::clear_kernels() {
  std::lock_guard lock(parts_->counting);
  parts_->kernels.clear();
}

Cost Device::counted() const {
  std::lock_guard lock(parts_->counting);
  return parts_->counted;
}

double Device::clock_seconds() const {
  std::lock_guard lock(parts_->counting);
  return parts_->clock;
}

void Device::set_clock(double seconds) {
  std::lock_guard lock(parts_->counting);
  parts_->clock = seconds;
}

Event Device::record([[maybe_unused]] bool with_time) const {
  if constexpr (build::has_cuda)
    if (parts_->gpu) return cuda().record(with_time);
  return nullptr;
}

void Device::wait_for(const Event& event) const {
  if (!event) return;
  if constexpr (build::has_cuda) parts_->gpu ? cuda().wait_for(event) : wait_until(event);
}

void Device::synchronize() {
  if constexpr (build::has_cuda)
    if (parts_->gpu) cuda().synchronize();
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
  constexpr int kMost = 65535;
  const bool is_number = end == text.data() + text.size() && !text.empty() && text.front() != '-';
  require(is_number && (error == std::errc{} || error == std::errc::result_out_of_range), "device '", whole,
          "': needs the form cpu:0, cuda:0, meta:0, '4x meta' or '8x a100'");
  require(error == std::errc{} && value <= kMost, "device '", whole, "': needs numbers up to ", kMost, ", got ", text);
  return value;
}

/// What the caller left open is the description's.
Device::Options described_by(const DeviceDescription& description, std::string_view name, Device::Options options,
                             const DescribedOptions& described) {
  options.model = std::filesystem::path(name).stem().string();
  options.stands_for = description.backend;
  if (options.speed == DeviceSpeed{}) options.speed = speed_of(description, described.precision);
  if (options.budget_bytes == kUnlimited) options.budget_bytes = description.memory_bytes;
  return options;
}

void set_links(DeviceSpeed& speed, const DescribedOptions& described) {
  if (const auto& link = described.link) {
    speed.link_bytes_per_second = link->bytes_per_second;
    speed.link_latency_seconds = link->latency_seconds;
  }
  if (const auto& link = described.host_link) {
    speed.host_link_bytes_per_second = link->bytes_per_second;
    speed.host_link_latency_seconds = link->latency_seconds;
  }
}

void require_known(std::string_view name, const std::string& kind) {
  if (is_description_file(kind)) return;
  std::vector<std::string> known = described_devices();
  known.insert(known.begin(), {"cpu", "cuda", "meta"});
  if (std::ranges::find(known, kind) != known.end()) return;
  std::string list;
  for (const auto& word : known) list += (list.empty() ? "" : ", ") + word;
  const std::string nearest = nearest_word(kind, known);
  throw UsageError(join("device '", name, "': unknown kind '", kind, "'; ", nearest.empty() ? "" : "did you mean '" + nearest + "'? ",
                        "Known are ", list, ", as in cpu:0 or '4x a100', and files, as in '4x my-device.toml'"));
}

DeviceName parse_name(std::string_view text) {
  const auto colon = text.rfind(':');
  DeviceName name{std::string(text.substr(0, colon)), colon == std::string_view::npos ? 0 : parse_count(text.substr(colon + 1), text)};
  require_known(text, name.kind);
  return name;
}

void require_gpu(const DeviceName& name, const Device::Options& options) {
  const std::string text = join("device '", name.kind, ":", name.index, "': ");
  const std::string reason = cuda_unavailable_reason();
  require(reason.empty(), text, reason, "; use cpu:N, or h200:N to plan for a GPU");
  require(options.gpu_of(name.index) < cuda_device_count(), text, "this machine has ", cuda_device_count(),
          " GPUs, the last is cuda:", cuda_device_count() - 1);
}

}  // namespace

DevicePtr make_device(const DeviceName& name, Device::Options options, const DescribedOptions& described) {
  const bool is_described = name.kind != "cpu" && name.kind != "cuda" && name.kind != "meta";
  if (is_described) options = described_by(describe_device(name.kind), name.kind, options, described);
  set_links(options.speed, described);
  if (name.kind == "cuda" && !options.elsewhere) require_gpu(name, options);
  const DeviceKind kind = name.kind == "cuda" ? DeviceKind::cuda : name.kind == "cpu" ? DeviceKind::cpu : DeviceKind::meta;
  return std::make_shared<Device>(kind, name.index, std::move(options));
}

DevicePtr make_device(std::string_view name, Device::Options options) {
  return make_device(parse_name(name), std::move(options), DescribedOptions{});
}

std::vector<DeviceName> device_names(std::string_view list) {
  std::vector<DeviceName> names;
  int next_index = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto item = trimmed(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const auto times = item.find("x ");
    if (times == std::string_view::npos) {
      names.push_back(parse_name(item));
      continue;
    }
    const int count = parse_count(item.substr(0, times), item);
    for (int i = 0; i < count; ++i) names.push_back(parse_name(join(trimmed(item.substr(times + 2)), ":", next_index++)));
  }
  require(!names.empty(), "devices: needs at least one device, as in 'cpu:0,cpu:1' or '4x meta'");
  return names;
}

std::vector<DevicePtr> devices(std::string_view list, Device::Options options) { return devices(list, options, DescribedOptions{}); }
std::vector<DevicePtr> devices(std::string_view list) { return devices(list, Device::Options{}); }

std::vector<DevicePtr> devices(std::string_view list, const Device::Options& options, const DescribedOptions& described) {
  std::vector<DevicePtr> result;
  for (const DeviceName& name : device_names(list)) {
    Device::Options own = options;
    own.host = described.host_of(static_cast<int>(result.size()));
    result.push_back(make_device(name, std::move(own), described));
  }
  return result;
}

const DevicePtr& default_device() {
  static const DevicePtr device = make_device("cpu:0");
  return device;
}

}  // namespace sluice
