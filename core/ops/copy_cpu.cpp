#include <algorithm>
#include <cstring>

#include "core/ops/copy.h"

namespace sluice::kernels {

namespace {

/// Offset of a row (all axes but the last) in elements of a strided tensor.
int64_t row_offset(const Tensor& x, int64_t row) {
  int64_t offset = 0;
  for (int axis = x.rank() - 2; axis >= 0; --axis) {
    offset += row % x.dim(axis) * x.stride(axis);
    row /= x.dim(axis);
  }
  return offset;
}

template <class From, class To>
void copy_rows(Cpu& cpu, const Tensor& from, const Tensor& to) {
  const int64_t columns = from.rank() == 0 ? 1 : from.dim(-1);
  const int64_t rows = columns == 0 ? 0 : from.elements() / columns;
  const int64_t from_step = from.rank() == 0 ? 1 : from.stride(-1), to_step = to.rank() == 0 ? 1 : to.stride(-1);
  const From* source = from.data<From>();
  To* target = to.data<To>();
  cpu.parallel_for(rows, grain_for(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const From* x = source + row_offset(from, row);
      To* y = target + row_offset(to, row);
      if constexpr (std::is_same_v<From, To>)
        if (from_step == 1 && to_step == 1) {
          std::memcpy(y, x, columns * sizeof(To));
          continue;
        }
      for (int64_t i = 0; i < columns; ++i) y[i * to_step] = static_cast<To>(static_cast<compute_t<From>>(x[i * from_step]));
    }
  });
}

}  // namespace

void copy(Cpu& cpu, const Tensor& from, const Tensor& to) {
  if (from.elements() == 0) return;
  on_any(from.dtype(), "copy", [&]<class From>() { on_any(to.dtype(), "copy", [&]<class To>() { copy_rows<From, To>(cpu, from, to); }); });
}

void fill(Cpu& cpu, const Tensor& x, double value) {
  on_any(x.dtype(), "fill", [&]<class T>() {
    T* data = x.data<T>();
    const T element = static_cast<T>(static_cast<compute_t<T>>(value));
    cpu.parallel_for(x.elements(), grain_for(1), [&](int64_t begin, int64_t end) { std::fill(data + begin, data + end, element); });
  });
}

}  // namespace sluice::kernels
