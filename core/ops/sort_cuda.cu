#include "core/ops/selection_cuda.cuh"
#include "core/ops/sort.h"
#include "core/ops/sort_keys.h"
#include "core/ops/sorting_network_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// The keys of rows of n elements, padded to rows of `width` keys.
template <class T>
struct KeysOfRows {
  const T* x;
  int64_t n, width;
  bool descending;
  __device__ SortKey<T> operator()(int64_t at) const {
    const int64_t row = at / width, i = at - row * width;
    return i < n ? sort_key(x[row * n + i], i, descending) : last_sort_key<SortKey<T>>();
  }
};

template <class T>
__global__ void write_sorted(KeysOfRows<T> of, const SortKey<T>* keys, int64_t k, int64_t count, T* values, int64_t* indices) {
  for (int64_t at = grid_index(); at < count; at += grid_size()) {
    const int64_t row = at / k, index = index_of(keys[row * of.width + at - row * k]);
    indices[at] = index;
    values[at] = of.x[row * of.n + index];
  }
}

}  // namespace

void sort(Cuda& cuda, const Tensor& x, bool descending, const Tensor& keys, const Tensor& values, const Tensor& indices) {
  const int64_t n = x.dim(-1), k = values.dim(-1), width = keys.dim(-2), count = values.elements();
  if (count == 0) return;
  on_any(x.dtype(), "sort", [&]<class T>() {
    if constexpr (sizeof(T) <= 4)
      if (selects_first(x.dtype(), n, k)) {
        const dim3 rows(static_cast<unsigned>(x.shape().elements_before(-1)));
        return launch(cuda, "topk", {rows, kSelectThreads}, select_first<T>, static_cast<const T*>(x.data<T>()), n, descending,
                      static_cast<int>(k), values.data<T>(), indices.data<int64_t>());
      }
    auto* of_rows = reinterpret_cast<SortKey<T>*>(keys.data<int64_t>());
    const KeysOfRows<T> of{x.data<T>(), n, width, descending};
    sort_rows(cuda, "sort", of, width, of_rows, keys.shape().elements_before(-1));
    launch(cuda, "sort", {grid_for(cuda, count, kThreads), kThreads}, write_sorted<T>, of, of_rows, k, count, values.data<T>(),
           indices.data<int64_t>());
  });
}

}  // namespace sluice::kernels
