#include "core/cpu/cpu.h"
#include "core/ops/noise_rules.h"
#include "core/ops/row_parts.h"

namespace sluice::kernels {

void noise(Cpu& cpu, Noise kind, const RandomStream& stream, const Tensor& y) {
  if (y.elements() == 0) return;
  constexpr int64_t kGrain = 1024;
  const int64_t samples = y.dim(0), elements = y.elements() / samples, blocks = (elements + 3) / 4;
  on_float(y.dtype(), "noise", [&]<class T>() {
    cpu.parallel_for(samples * blocks, kGrain, [=, data = y.data<T>()](int64_t begin, int64_t end) {
      each_row_part(begin, end, blocks, [&](int64_t sample, int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          const auto values = noise_from(kind, stream.words(static_cast<uint64_t>(block), static_cast<uint32_t>(sample)));
          for (int64_t i = 4 * block; i < std::min(4 * block + 4, elements); ++i)
            data[sample * elements + i] = rounded_below<T>(values[static_cast<size_t>(i % 4)], end_of(kind));
        }
      });
    });
  });
}

}  // namespace sluice::kernels
