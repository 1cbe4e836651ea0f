#include "core/cpu/cpu.h"
#include "core/ops/ramp.h"

namespace sluice::kernels {

void ramp(Cpu& cpu, const Ramp& numbers, const Tensor& y) {
  on_any(y.dtype(), "ramp", [&]<class T>() {
    cpu.parallel_for(y.elements(), grain_for(1), [&, to = y.data<T>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(numbers.at(i));
    });
  });
}

}  // namespace sluice::kernels
