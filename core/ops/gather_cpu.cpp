#include "core/cpu/cpu.h"
#include "core/ops/gather.h"
#include "core/ops/indices_cpu.h"
#include "core/ops/row_parts.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kLeastColumns = 16;  // neighbours that a chunk of a sum has, where there are so many

template <class Index>
void require_indices(const Index* index, int64_t count, int64_t n) {
  require_below("indexing: needs indices", index, count, n, "check the index and the axis");
}

template <class T, class Index>
void gather_rows(Cpu& cpu, const GatherView& view, const T* x, const Index* index, T* y) {
  const auto [outer, n, m, inner, takes_slices] = view;
  cpu.parallel_for(outer * m, grain_for(inner), [=, n = n, m = m, inner = inner, takes_slices = takes_slices](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row / m * n * inner;
      T* to = y + row * inner;
      if (takes_slices) {
        std::copy_n(from + static_cast<int64_t>(index[row % m]) * inner, inner, to);
        continue;
      }
      for (int64_t i = 0; i < inner; ++i) to[i] = from[static_cast<int64_t>(index[row * inner + i]) * inner + i];
    }
  });
}

/// Each chunk has columns of its own, elements before and behind the axis, and goes through all indices in their order.
template <class T, class Index>
void add_columns(Cpu& cpu, const GatherView& view, const Index* index, const T* source, compute_t<T>* sums) {
  cpu.parallel_for(view.outer * view.inner, std::max(kLeastColumns, grain_for(view.m)), [=](int64_t begin, int64_t end) {
    each_row_part(begin, end, view.inner, [&](int64_t outer, int64_t first, int64_t last) {
      compute_t<T>* to = sums + outer * view.n * view.inner;
      for (int64_t j = 0; j < view.m; ++j) {
        const int64_t row = (outer * view.m + j) * view.inner;
        for (int64_t i = first; i < last; ++i)
          to[static_cast<int64_t>(index[view.takes_slices ? j : row + i]) * view.inner + i] += static_cast<compute_t<T>>(source[row + i]);
      }
    });
  });
}

}  // namespace

void gather(Cpu& cpu, const GatherView& view, const Tensor& x, const Tensor& index, const Tensor& y) {
  on_index(index.dtype(), "gather", [&]<class Index>() {
    require_indices(index.data<Index>(), index.elements(), view.n);
    on_any(x.dtype(), "gather", [&]<class T>() { gather_rows(cpu, view, x.data<T>(), index.data<Index>(), y.data<T>()); });
  });
}

void scatter_add(Cpu& cpu, const GatherView& view, const Tensor& index, const Tensor& source, const Tensor& sums) {
  on_index(index.dtype(), "scatter_add", [&]<class Index>() {
    require_indices(index.data<Index>(), index.elements(), view.n);
    on_float(source.dtype(), "scatter_add",
             [&]<class T>() { add_columns(cpu, view, index.data<Index>(), source.data<T>(), sums.data<compute_t<T>>()); });
  });
}

void check_indices(Cpu&, const Tensor& index, int64_t n) {
  on_index(index.dtype(), "indexing", [&]<class Index>() { require_indices(index.data<Index>(), index.elements(), n); });
}

}  // namespace sluice::kernels
