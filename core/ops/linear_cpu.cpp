#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/linear.h"

namespace sluice::kernels {

void sum_rows(Cpu& cpu, const Tensor& dy, const Tensor& partial) {
  constexpr int64_t kStrip = 256;  // columns whose sums stay in the first-level cache
  const int64_t columns = partial.dim(1), rows = dy.dim(0);
  on_float(dy.dtype(), "linear", [&]<class T>() {
    cpu.parallel_for(columns, kStrip, [&](int64_t begin, int64_t end) {
      compute_t<T> sums[kStrip] = {};
      const T* row = dy.data<T>() + begin;
      for (int64_t i = 0; i < rows; ++i, row += columns)
        for (int64_t j = 0; j < end - begin; ++j) sums[j] += static_cast<compute_t<T>>(row[j]);
      std::copy_n(sums, end - begin, partial.data<compute_t<T>>() + begin);
    });
  });
}

}  // namespace sluice::kernels
