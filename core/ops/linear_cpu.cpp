#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/cpu/packed_gemm.h"
#include "core/ops/linear.h"
#include "core/ops/padding.h"

namespace sluice::kernels {

void sum_rows(Cpu& cpu, const Tensor& dy, const Tensor& lengths, const Tensor& partial) {
  constexpr int64_t kStrip = 256;  // columns whose sums stay in the first-level cache
  const int64_t columns = partial.dim(1);
  std::vector<int32_t> listed;
  if (lengths.defined()) listed = rows_without_padding("sum_rows", lengths, dy.dim(0) / std::max<int64_t>(1, lengths.dim(0)));
  const ListedRows rows{lengths.defined() ? listed.data() : nullptr};
  const int64_t count = lengths.defined() ? static_cast<int64_t>(listed.size()) : dy.dim(0);
  on_float(dy.dtype(), "linear", [&]<class T>() {
    cpu.parallel_for(columns, kStrip, [&](int64_t begin, int64_t end) {
      compute_t<T> sums[kStrip] = {};
      for (int64_t i = 0; i < count; ++i) {
        const T* row = dy.data<T>() + rows.at(i) * columns + begin;
        for (int64_t j = 0; j < end - begin; ++j) sums[j] += static_cast<compute_t<T>>(row[j]);
      }
      std::copy_n(sums, end - begin, partial.data<compute_t<T>>() + begin);
    });
  });
}

}  // namespace sluice::kernels
