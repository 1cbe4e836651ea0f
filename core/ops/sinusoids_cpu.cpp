#include <cmath>

#include "core/ops/sinusoids.h"

namespace sluice::kernels {

void sinusoids(Cpu& cpu, const SinusoidTable& table, const Tensor& y) {
  constexpr int64_t kGrain = 1024;  // elements: a sine takes longer than an access
  const int64_t width = table.width, half = (width + 1) / 2;
  on_float(y.dtype(), "sinusoids", [&]<class T>() {
    cpu.parallel_for(y.elements(), kGrain, [&, to = y.data<T>()](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t column = at % width, i = column % half;
        const double angle =
            static_cast<double>(table.first + at / width) * std::pow(table.base, -static_cast<double>(i) / static_cast<double>(half));
        to[at] = static_cast<T>(static_cast<compute_t<T>>(column < half ? std::sin(angle) : std::cos(angle)));
      }
    });
  });
}

}  // namespace sluice::kernels
