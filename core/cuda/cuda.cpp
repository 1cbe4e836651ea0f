#include "core/cuda/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/cuda/event.h"
#include "core/cuda/launch.h"

namespace sluice {

namespace {

/// The driver and its devices do not change while a process runs.
struct Availability {
  Availability() {
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return;
    count = 0;
    cudaGetLastError();
    if (status == cudaErrorInsufficientDriver)
      reason = "this machine has no NVIDIA driver, or one too old for CUDA " + version_text(CUDART_VERSION) + "; install or update it";
    else if (status == cudaErrorNoDevice || status == cudaSuccess)
      reason = "the NVIDIA driver finds no GPU on this machine; check nvidia-smi and CUDA_VISIBLE_DEVICES";
    else
      reason = join("the NVIDIA driver answers ", cudaGetErrorName(status), ", ", cudaGetErrorString(status), "; check nvidia-smi");
  }
  static std::string version_text(int version) { return join(version / 1000, ".", version % 1000 / 10); }
  int count = 0;
  std::string reason;
};

const Availability& availability() {
  static const Availability found;
  return found;
}

bool synchronous() {
  static const bool set = [] {
    const char* value = std::getenv("SLUICE_SYNC");
    return value && std::strcmp(value, "0") != 0 && *value;
  }();
  return set;
}

int attribute(int index, cudaDeviceAttr which) {
  int value = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

}  // namespace

std::string cuda_unavailable_reason() { return availability().reason; }
int cuda_device_count() { return availability().count; }

GpuDescription describe_gpu(int index) {
  require(availability().reason.empty(), "cuda:", index, ": ", availability().reason);
  require(index >= 0 && index < availability().count, "cuda:", index, ": this machine has ", availability().count, " GPUs");
  GpuDescription result;
  cudaDeviceProp properties{};
  CUDA_TRY(cudaGetDeviceProperties(&properties, index));
  result.name = properties.name;
  result.compute_capability = properties.major * 10 + properties.minor;
  result.multiprocessors = properties.multiProcessorCount;
  size_t free = 0, total = 0;
  CUDA_TRY(cudaSetDevice(index));
  CUDA_TRY(cudaMemGetInfo(&free, &total));
  result.memory_bytes = static_cast<int64_t>(total);
  result.free_bytes = static_cast<int64_t>(free);
  CUDA_TRY(cudaDriverGetVersion(&result.driver_version));
  result.clock_hz = 1e3 * attribute(index, cudaDevAttrClockRate);
  const double memory_clock_hz = 1e3 * attribute(index, cudaDevAttrMemoryClockRate);
  result.bytes_per_second = 2 * memory_clock_hz * attribute(index, cudaDevAttrGlobalMemoryBusWidth) / 8;  // two transfers a clock
  return result;
}

namespace {

template <auto destroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using DeviceMemory = std::unique_ptr<void, Destroy<cudaFree>>;
using PinnedMemory = std::unique_ptr<char, Destroy<cudaFreeHost>>;

Stream new_stream() {
  cudaStream_t stream = nullptr;
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

DeviceMemory device_memory(size_t bytes) {
  void* memory = nullptr;
  CUDA_TRY(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

PinnedMemory pinned_memory(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw ResourceError(join("cuda: the system has no ", bytes,
                             " bytes of its own memory left to pin for transfers to GPUs; end other programs on this machine"));
  }
  cuda_try(status, "cudaMallocHost");
  return PinnedMemory(static_cast<char*>(memory));
}

}  // namespace

/// Pinned memory through which the host's tensors come and go: some pieces, used in turn. The caller of an upload need not wait for the
/// copy; of a download one piece is taken while the next ones come.
struct Cuda::Staging {
  static constexpr size_t kPieces = 4, kPieceBytes = size_t{8} << 20;

  void upload(const Cuda& cuda, const char* host, char* device, size_t bytes) {
    for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
      const size_t count = std::min(kPieceBytes, bytes - begin);
      wait_until(used[next]);
      char* piece = memory.get() + next * kPieceBytes;
      std::memcpy(piece, host + begin, count);
      CUDA_TRY(cudaMemcpyAsync(device + begin, piece, count, cudaMemcpyHostToDevice, cuda.stream()));
      used[next] = cuda.record();
      next = (next + 1) % kPieces;
    }
  }

  void download(const Cuda& cuda, const char* device, char* host, size_t bytes) {
    const size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes, first = next;
    size_t taken = 0;
    const auto slot = [&](size_t piece) { return (first + piece) % kPieces; };
    const auto count = [&](size_t piece) { return std::min(kPieceBytes, bytes - piece * kPieceBytes); };
    const auto take = [&] {
      wait_until(used[slot(taken)]);
      std::memcpy(host + taken * kPieceBytes, memory.get() + slot(taken) * kPieceBytes, count(taken));
      ++taken;
    };
    for (size_t piece = 0; piece < pieces; ++piece) {
      if (piece - taken == kPieces) take();
      wait_until(used[slot(piece)]);  // of an upload, perhaps
      CUDA_TRY(cudaMemcpyAsync(memory.get() + slot(piece) * kPieceBytes, device + piece * kPieceBytes, count(piece), cudaMemcpyDeviceToHost,
                               cuda.stream()));
      used[slot(piece)] = cuda.record();
    }
    while (taken < pieces) take();
    next = slot(pieces);
  }

  PinnedMemory memory = pinned_memory(kPieces * kPieceBytes);
  size_t next = 0;
  std::array<Event, kPieces> used;
};

Cuda::Cuda(int index, bool allow_tf32, int64_t budget_bytes)
    : index_(index), allow_tf32_(allow_tf32), description_(describe_gpu(index)), memory_(GpuMemory::of(index)) {
  activate();
  Stream stream = new_stream();
  graphs_ = std::make_unique<GraphCapture>(index_, stream.get(), memory_, !synchronous());
  DeviceMemory report = device_memory(kReportBytes), workspace = device_memory(kWorkspaceBytes);
  PinnedMemory report_on_host = pinned_memory(kReportBytes);
  CUDA_TRY(cudaMemsetAsync(report.get(), 0xff, sizeof(Faults), stream.get()));
  memory_->enter(*this, budget_bytes, kOwnBytes);
  stream_ = stream.release();
  report_ = static_cast<char*>(report.release());
  workspace_ = workspace.release();
  report_on_host_ = report_on_host.release();
}

Cuda::~Cuda() {
  cudaSetDevice(index_);
  graphs_.reset();
  cudaStreamSynchronize(stream_);
  for (const auto& [sender, stream] : receivers_) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  states_.clear();
  staging_.reset();
  cudaFree(workspace_);
  cudaFree(report_);
  cudaFreeHost(report_on_host_);
  memory_->leave(*this, kOwnBytes);
  cudaStreamDestroy(stream_);
}

void Cuda::activate() const { CUDA_TRY(cudaSetDevice(index_)); }

Event Cuda::record(bool with_time) const { return graphs_->record(with_time); }

void Cuda::wait_for(const Event& event) const {
  if (!event) return;
  graphs_->launch();
  activate();
  CUDA_TRY(cudaStreamWaitEvent(stream_, event->handle(), 0));
}

/// Numbers are gathered on the device behind the record of faults, so that the host waits once for all of them.
void Cuda::read(std::span<const Number> numbers) {
  constexpr size_t kNumberBytes = 8, kMost = (kReportBytes - kFaultsBytes) / kNumberBytes;
  graphs_->launch();
  activate();
  do {
    const auto together = numbers.first(std::min(kMost, numbers.size()));
    for (size_t i = 0; i < together.size(); ++i)
      CUDA_TRY(cudaMemcpyAsync(report_ + kFaultsBytes + i * kNumberBytes, together[i].device, together[i].bytes, cudaMemcpyDeviceToDevice,
                               stream_));
    CUDA_TRY(cudaMemcpyAsync(report_on_host_, report_, kFaultsBytes + together.size() * kNumberBytes, cudaMemcpyDeviceToHost, stream_));
    CUDA_TRY(cudaStreamSynchronize(stream_));
    Faults found;
    std::memcpy(&found, report_on_host_, sizeof found);
    check_faults(found);
    for (size_t i = 0; i < together.size(); ++i)
      std::memcpy(together[i].host, report_on_host_ + kFaultsBytes + i * kNumberBytes, together[i].bytes);
    numbers = numbers.subspan(together.size());
  } while (!numbers.empty());
}

namespace {

/// By FaultKind.
constexpr struct {
  const char *needs, *place;
} kFaultWords[] = {{"embedding: needs ids", " at position "},
                   {"cross_entropy: needs targets that are ignored or", " at row "},
                   {"attention: needs query lengths", " of sample "},
                   {"attention: needs key lengths", " of sample "},
                   {"indexing: needs indices", " at position "}};

}  // namespace

/// Of every kind the first is told, once.
void Cuda::check_faults(const Faults& found) {
  static_assert(std::size(kFaultWords) == static_cast<size_t>(FaultKind::kinds));
  std::string faults;
  for (int kind = 0; kind < static_cast<int>(FaultKind::kinds); ++kind) {
    if (found.first[kind] == ~0ull) continue;
    const auto low = static_cast<int32_t>(found.first[kind] & 0xffffffffu);
    const bool is_whole = low < 0 || low >= found.limit[kind];  // else it was out of range by what lies above
    faults += join(faults.empty() ? "" : "; ", kFaultWords[kind].needs, " in [0, ", found.limit[kind], "), got ",
                   is_whole ? "" : "a number of 64 bits whose low half is ", low, kFaultWords[kind].place, found.first[kind] >> 32,
                   " of a tensor on cuda:", index_);
  }
  if (faults.empty()) return;
  CUDA_TRY(cudaMemsetAsync(report_, 0xff, sizeof found, stream_));
  throw UsageError(faults);
}

void* Cuda::allocate(size_t bytes) const {
  void* memory = memory_->allocate(bytes);
  if (!memory) graphs_->launch();  // so that what is freed now becomes free at once
  return memory;
}

void Cuda::release(void* memory, size_t bytes) const noexcept {
  if (!graphs_->keep_until_launch(memory, bytes)) memory_->release(memory, bytes);
}

Cuda::Staging& Cuda::staging() {
  if (!staging_) staging_ = std::make_unique<Staging>();
  return *staging_;
}

void Cuda::upload(const void* host, void* device, size_t bytes) {
  graphs_->launch();
  activate();
  std::lock_guard lock(staging_turn_);
  staging().upload(*this, static_cast<const char*>(host), static_cast<char*>(device), bytes);
}

void Cuda::download(const void* device, void* host, size_t bytes) {
  graphs_->launch();
  activate();
  if (bytes <= kDriversOwn) {
    CUDA_TRY(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
  } else {
    std::lock_guard lock(staging_turn_);
    staging().download(*this, static_cast<const char*>(device), static_cast<char*>(host), bytes);
  }
  synchronize();
}

void Cuda::copy_from(const Cuda& other, const void* from, void* to, size_t bytes) {
  graphs_->launch();
  activate();
  if (other.index_ == index_)
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  else
    CUDA_TRY(cudaMemcpyPeerAsync(to, index_, from, other.index_, bytes, stream_));
}

/// Without peer access the driver copies through the host: slower, and right.
CUstream_st* Cuda::stream_from(const Cuda& other) {
  std::lock_guard lock(receiving_);
  auto& stream = receivers_[&other];
  if (stream) return stream;
  int can_access = 0;
  CUDA_TRY(cudaDeviceCanAccessPeer(&can_access, index_, other.index_));
  if (can_access && cudaDeviceEnablePeerAccess(other.index_, 0) != cudaSuccess) cudaGetLastError();  // another pair has enabled it
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

Event Cuda::receive(const Cuda& other, const void* from, void* to, size_t bytes, const Event& ready, const Event& free) {
  activate();
  CUstream_st* const stream = stream_from(other);
  for (const Event& event : {ready, free})
    if (event) CUDA_TRY(cudaStreamWaitEvent(stream, event->handle(), 0));
  CUDA_TRY(cudaMemcpyPeerAsync(to, index_, from, other.index_, bytes, stream));
  return std::make_shared<const CudaEvent>(index_, stream, false);
}

void allow_shared_bytes(const Cuda& cuda, const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, size_t> allowed;  // by GPU and kernel
  std::lock_guard lock(mutex);
  size_t& most = allowed[{cuda.index(), kernel}];
  if (bytes <= most) return;
  CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

void after_launch(Cuda& cuda, const char* kernel) {
  if (synchronous()) cuda_try(cudaStreamSynchronize(cuda.stream()), kernel);
}

}  // namespace sluice
