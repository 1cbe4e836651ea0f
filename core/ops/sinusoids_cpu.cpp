#include <algorithm>
#include <cmath>

#include "core/cpu/cpu.h"
#include "core/ops/sinusoids.h"

namespace sluice::kernels {

void sinusoids(Cpu& cpu, const SinusoidTable& table, const Tensor& y) {
  constexpr int64_t kAngles = 512;  // of a chunk: a sine takes far longer than an access
  const int64_t width = table.width, half = (width + 1) / 2;
  on_float(y.dtype(), "sinusoids", [&]<class T>() {
    const auto rounded = [](double value) { return static_cast<T>(value); };
    cpu.parallel_for(half, kAngles / std::max<int64_t>(1, table.count), [&, to = y.data<T>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double frequency = std::pow(table.base, -static_cast<double>(i) / static_cast<double>(half));
        for (int64_t t = 0; t < table.count; ++t) {
          const double angle = static_cast<double>(table.first + t) * frequency;
          to[t * width + i] = rounded(std::sin(angle));
          if (half + i < width) to[t * width + half + i] = rounded(std::cos(angle));
        }
      }
    });
  });
}

}  // namespace sluice::kernels
