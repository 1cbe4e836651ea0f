#include "core/gpu_speed.h"

namespace sluice {

namespace {

/// Floating-point operations of one multiprocessor in one clock: dense products with f32 sums.
struct Rates {
  int compute_capability;
  double bf16, tf32, f32;
};
constexpr Rates kRates[] = {{120, 512, 256, 256}, {100, 8192, 4096, 256}, {90, 4096, 2048, 256}, {0, 2048, 1024, 128}};

}  // namespace

DeviceSpeed gpu_speed(const GpuDescription& gpu, Precision precision) {
  const Rates* rates = kRates;
  while (rates->compute_capability > gpu.compute_capability) ++rates;
  const double a_clock = precision == Precision::bf16 ? rates->bf16 : precision == Precision::tf32 ? rates->tf32 : rates->f32;
  return {a_clock * gpu.multiprocessors * gpu.clock_hz, gpu.bytes_per_second, 450e9, 5e-6};
}

}  // namespace sluice
