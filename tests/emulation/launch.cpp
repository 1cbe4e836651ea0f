#include "core/error.h"
#include "tests/emulation/fault_handler.h"
#include "tests/emulation/runtime.h"

namespace sluice::emulation {

namespace {

std::string describe(uintptr_t address) {
  if (const auto shared = runtime().shared_memory.describe(address)) return *shared;
  return runtime().memory.describe(address);
}

std::string text_of(const dim3& size) { return join(size.x, " x ", size.y, " x ", size.z); }

/// Source  CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
void check_limits(const cudaLaunchConfig_t& config, size_t shared_bytes_allowed) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  check(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535,
        cudaErrorInvalidConfiguration, "launch: a grid needs 1 to 2147483647 x 65535 x 65535 blocks, got ", text_of(grid));
  check(block.x > 0 && block.y > 0 && block.z > 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
            uint64_t{block.x} * block.y * block.z <= Block::kMaxThreads,
        cudaErrorInvalidConfiguration, "launch: a block needs 1 to 1024 threads, at most 64 along z, got ", text_of(block));
  check(config.dynamicSmemBytes <= shared_bytes_allowed, cudaErrorInvalidValue, "launch: the kernel may have ", shared_bytes_allowed,
        " bytes of dynamic shared memory, asked for ", config.dynamicSmemBytes, "; above ", SharedMemory::kUnaskedBytes,
        " it needs cudaFuncSetAttribute");
  check(config.numAttrs == 0, cudaErrorNotSupported, "launch: attributes of launches are not emulated");
}

void run_grid(Runtime& state, const Launch& launch) {
  catch_faults_of_kernels(describe);
  Random random(state.seed * 0x9e3779b97f4a7c15u + launch.number);
  RandomBag blocks;
  blocks.fill(launch.blocks());
  while (!blocks.empty()) {
    const uint32_t block = blocks.take(random);
    state.shared_memory.start_block(launch.shared_bytes);
    state.block.run(launch, {block % launch.grid.x, block / launch.grid.x % launch.grid.y, block / launch.grid.x / launch.grid.y}, random);
  }
  if (const auto* damaged = state.memory.overwritten_end())
    throw KernelFault(join("kernel launch #", launch.number, ": a thread wrote less than 16 bytes past the end of ", damaged->text(),
                           "; check the kernel's bounds"));
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  return call([&](Runtime& state) {
    const auto allowed = state.shared_bytes_allowed.find({current_device(), kernel});
    check_limits(config, allowed == state.shared_bytes_allowed.end() ? SharedMemory::kUnaskedBytes : allowed->second);
    check(state.queue_of(config.stream)->device() == current_device(), cudaErrorInvalidResourceHandle,
          "launch: the stream belongs to device ", state.queue_of(config.stream)->device(), ", the current one is ", current_device(),
          "; call cudaSetDevice");
    const Launch launch{++state.launches, config.gridDim, config.blockDim, config.dynamicSmemBytes, std::move(thread)};
    state.submit(config.stream, {CUgraphNode_st::Kind::kernel, [&state, launch] { run_grid(state, launch); }});
  });
}

void* dynamic_shared_memory() { return runtime().shared_memory.data(); }

}  // namespace sluice::emulation

using namespace sluice::emulation;

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&](Runtime& state) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return;
    check(value >= 0 && static_cast<size_t>(value) <= SharedMemory::kMostBytes, cudaErrorInvalidValue,
          "cudaFuncSetAttribute: a block has at most ", SharedMemory::kMostBytes, " bytes of dynamic shared memory, asked for ", value);
    state.shared_bytes_allowed[{current_device(), kernel}] = static_cast<size_t>(value);
  });
}

/// By threads and dynamic shared memory alone: the emulation knows no registers.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t shared_bytes) {
  return call([&](Runtime&) {
    check(threads > 0 && threads <= static_cast<int>(Block::kMaxThreads), cudaErrorInvalidValue,
          "occupancy: a block needs 1 to 1024 threads, got ", threads);
    constexpr size_t kMultiprocessorBytes = size_t{228} << 10, kReservedBytes = size_t{1} << 10;
    *blocks = static_cast<int>(std::min({size_t{32}, size_t{2048} / threads, kMultiprocessorBytes / (shared_bytes + kReservedBytes)}));
  });
}
