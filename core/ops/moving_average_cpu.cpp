#include "core/cpu/cpu.h"
#include "core/ops/lanes.h"
#include "core/ops/moving_average.h"

namespace sluice::kernels {

void moving_average_step(Cpu& cpu, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  if (sum_of_squares.defined() && !std::isfinite(*sum_of_squares.data<double>())) return;
  for (const MovingAverage& pair : pairs)
    on_float(pair.average.dtype(), "moving_average_step", [&]<class T>() {
      T* average = pair.average.data<T>();
      const T* value = pair.value.data<T>();
      cpu.parallel_for(pair.average.elements(), grain_for(1), [=](int64_t begin, int64_t end) {
        const Lanes<compute_t<T>> rate(1 - decay);
        for_lanes<T>(begin, end, [&](auto load, auto store) {
          const auto past = load(average);
          store(average, past + rate * (load(value) - past));
        });
      });
    });
}

}  // namespace sluice::kernels
