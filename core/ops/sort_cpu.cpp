#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/sort.h"
#include "core/ops/sort_keys.h"

namespace sluice::kernels {

namespace {

template <class T>
void sort_row(const T* x, int64_t n, bool descending, SortKey<T>* keys, int64_t k, T* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) keys[i] = sort_key(x[i], i, descending);
  if (k < n) std::nth_element(keys, keys + k, keys + n);
  std::sort(keys, keys + k);
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = index_of(keys[i]);
    values[i] = x[indices[i]];
  }
}

}  // namespace

void sort(Cpu& cpu, const Tensor& x, bool descending, const Tensor& keys, const Tensor& values, const Tensor& indices) {
  const int64_t n = x.dim(-1), k = values.dim(-1);
  if (values.elements() == 0) return;
  on_any(x.dtype(), "sort", [&]<class T>() {
    auto* of_rows = reinterpret_cast<SortKey<T>*>(keys.data<int64_t>());
    cpu.parallel_for(x.shape().elements_before(-1), grain_for(8 * n),
                     [=, x = x.data<T>(), values = values.data<T>(), indices = indices.data<int64_t>()](int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row)
                         sort_row(x + row * n, n, descending, of_rows + row * n, k, values + row * k, indices + row * k);
                     });
  });
}

}  // namespace sluice::kernels
