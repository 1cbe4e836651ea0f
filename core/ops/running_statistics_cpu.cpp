#include <cmath>

#include "core/ops/running_statistics.h"

namespace sluice::kernels {

void update_running_statistics(Cpu& cpu, const Tensor& running_mean, const Tensor& running_variance, const std::vector<BatchMoments>& parts,
                               double momentum, const Tensor& sum_of_squares, const Tensor&) {
  if (sum_of_squares.defined() && !std::isfinite(*sum_of_squares.data<double>())) return;
  on_float(running_mean.dtype(), "update_running_statistics", [&]<class T>() {
    const auto mix = [=](T& running, double observed) {
      running = static_cast<T>(momentum * static_cast<double>(running) + (1 - momentum) * observed);
    };
    cpu.parallel_for(running_mean.elements(), grain_for(static_cast<int64_t>(parts.size())), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        PooledMoments all;
        for (const auto& part : parts)
          all.add(static_cast<double>(part.count), static_cast<double>(part.mean.data<T>()[j]),
                  static_cast<double>(part.variance.data<T>()[j]));
        mix(running_mean.data<T>()[j], all.mean);
        mix(running_variance.data<T>()[j], all.unbiased_variance());
      }
    });
  });
}

}  // namespace sluice::kernels
