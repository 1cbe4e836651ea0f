#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpu/cpu.h"
#include "core/ops/cumsum.h"
#include "core/ops/row_parts.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kColumns = 64;  // whose sums run side by side

/// Sums of neighbouring columns over the items of one chunk.
template <class T, class S>
class Scan {
 public:
  Scan(const ScanView& view, int64_t outer, int64_t chunk, int64_t column, int64_t columns)
      : first_(outer * view.n * view.inner + column),
        step_(view.from_end ? -view.inner : view.inner),
        columns_(columns),
        items_(std::min(view.chunk_items(), view.n - chunk * view.chunk_items())) {
    const int64_t item = chunk * view.chunk_items();
    first_ += (view.from_end ? view.n - 1 - item : item) * view.inner;
  }

  /// sums = those of the chunk's items. Of a single column in several parts, which do not wait for one another.
  void total(const T* x, S* sums) const {
    if (columns_ == 1) {
      constexpr int64_t kParts = 8;
      S parts[kParts] = {};
      for (int64_t k = 0; k < items_; ++k) parts[k % kParts] += static_cast<S>(x[first_ + k * step_]);
      *sums = std::accumulate(parts, parts + kParts, S(0));
      return;
    }
    std::fill_n(sums, columns_, S(0));
    for (int64_t k = 0, at = first_; k < items_; ++k, at += step_)
      for (int64_t i = 0; i < columns_; ++i) sums[i] += static_cast<S>(x[at + i]);
  }

  /// Adds the chunk's items to sums one by one, and writes to y what they are after each.
  void run(const T* x, S* sums, T* y) const {
    if (columns_ == 1) {
      S sum = *sums;
      for (int64_t k = 0, at = first_; k < items_; ++k, at += step_) y[at] = static_cast<T>(sum += static_cast<S>(x[at]));
      return;
    }
    for (int64_t k = 0, at = first_; k < items_; ++k, at += step_)
      for (int64_t i = 0; i < columns_; ++i) y[at + i] = static_cast<T>(sums[i] += static_cast<S>(x[at + i]));
  }

 private:
  int64_t first_, step_, columns_, items_;
};

/// Calls f(scan, place of the chunk's first column in partial, columns) for every chunk, a few columns at a time.
template <class T, class S, class F>
void each_scan(Cpu& cpu, const ScanView& view, const F& f) {
  const int64_t chunks = view.chunks(), items = std::min(view.n, view.chunk_items());
  cpu.parallel_for(view.outer * chunks * view.inner, std::max(kColumns, grain_for(items)), [&](int64_t begin, int64_t end) {
    each_row_part(begin, end, view.inner, [&](int64_t row, int64_t first, int64_t last) {
      for (int64_t column = first; column < last; column += kColumns) {
        const int64_t columns = std::min(kColumns, last - column);
        f(Scan<T, S>(view, row / chunks, row % chunks, column, columns), row * view.inner + column, columns);
      }
    });
  });
}

/// The sums of all chunks, and then of the chunks before each.
template <class T, class S>
void sum_chunks(Cpu& cpu, const ScanView& view, const T* x, S* partial) {
  each_scan<T, S>(cpu, view, [=](const Scan<T, S>& scan, int64_t at, int64_t) { scan.total(x, partial + at); });
  const int64_t chunks = view.chunks(), inner = view.inner;
  cpu.parallel_for(view.outer * inner, grain_for(chunks), [=](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column) {
      S* of_chunks = partial + column / inner * chunks * inner + column % inner;
      S sum = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += std::exchange(of_chunks[chunk * inner], sum);
    }
  });
}

}  // namespace

void cumsum(Cpu& cpu, const ScanView& view, const Tensor& x, const Tensor& partial, const Tensor& y) {
  if (y.elements() == 0) return;
  on_summed(x.dtype(), [&]<class T, class S>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    S* parts = view.chunks() > 1 ? static_cast<S*>(partial.data()) : nullptr;
    if (parts) sum_chunks<T>(cpu, view, from, parts);
    each_scan<T, S>(cpu, view, [=](const Scan<T, S>& scan, int64_t at, int64_t columns) {
      S sums[kColumns] = {};
      if (parts) std::copy_n(parts + at, columns, sums);
      scan.run(from, sums, to);
    });
  });
}

}  // namespace sluice::kernels
