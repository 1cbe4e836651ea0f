#include <algorithm>
#include <cstring>

#include "core/ops/broadcast.h"
#include "core/ops/copy.h"

namespace sluice::kernels {

namespace {

template <class From, class To>
void copy_run(const From* x, int64_t x_step, To* y, int64_t y_step, int64_t count) {
  if constexpr (std::is_same_v<From, To>)
    if (x_step == 1 && y_step == 1) {
      std::memcpy(y, x, count * sizeof(To));
      return;
    }
  for (int64_t i = 0; i < count; ++i) y[i * y_step] = static_cast<To>(static_cast<compute_t<From>>(x[i * x_step]));
}

template <class From, class To>
void copy_rows(Cpu& cpu, const Tensor& from, const Tensor& to) {
  const Broadcast plan(from, to, to.shape());
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t columns = plan.columns(), from_step = plan.a_step[plan.rank - 1], to_step = plan.b_step[plan.rank - 1];
  cpu.parallel_for(to.elements(), grain_for(1), [&](int64_t begin, int64_t end) {
    int64_t row = begin / columns, column = begin % columns;
    for (int64_t count; begin < end; begin += count, ++row, column = 0) {
      count = std::min(columns - column, end - begin);
      copy_run(source + plan.offset(plan.a_step, row) + column * from_step, from_step,
               target + plan.offset(plan.b_step, row) + column * to_step, to_step, count);
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
