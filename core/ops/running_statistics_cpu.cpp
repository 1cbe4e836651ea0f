#include <cmath>

#include "core/cpu/cpu.h"
#include "core/ops/running_statistics.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kColumns = 64;  // whose moments lie on the stack

template <class T>
void update(Cpu& cpu, const RunningUpdate& of) {
  const auto mix = [momentum = of.momentum](T& running, double observed) {
    running = static_cast<T>(momentum * static_cast<double>(running) + (1 - momentum) * observed);
  };
  T *to_mean = of.mean.data<T>(), *to_variance = of.variance.data<T>();
  cpu.parallel_for(of.mean.elements(), kColumns, [&](int64_t begin, int64_t end) {
    PooledMoments all[kColumns];
    for (const auto& part : of.parts) {
      const T *means = part.mean.data<T>() + begin, *variances = part.variance.data<T>() + begin;
      for (int64_t j = 0; j < end - begin; ++j)
        all[j].add(static_cast<double>(part.count), static_cast<double>(means[j]), static_cast<double>(variances[j]));
    }
    for (int64_t j = begin; j < end; ++j) {
      mix(to_mean[j], all[j - begin].mean);
      mix(to_variance[j], all[j - begin].unbiased_variance());
    }
  });
}

}  // namespace

void update_running_statistics(Cpu& cpu, const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares, const Tensor&) {
  if (sum_of_squares.defined() && !std::isfinite(*sum_of_squares.data<double>())) return;
  for (const RunningUpdate& each : updates)
    on_float(each.mean.dtype(), "update_running_statistics", [&]<class T>() { update<T>(cpu, each); });
}

}  // namespace sluice::kernels
