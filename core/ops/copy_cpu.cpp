#include <algorithm>
#include <cstring>

#include "core/cpu/cpu.h"
#include "core/ops/broadcast_cpu.h"
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
  const Broadcast plan(to.shape(), from, to);
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t from_step = plan.step(0), to_step = plan.step(1);
  over_runs(cpu, plan, to.elements(), [&](int64_t row, int64_t column, int64_t, int64_t count) {
    copy_run(source + plan.offset(0, row) + column * from_step, from_step, target + plan.offset(1, row) + column * to_step, to_step, count);
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
    const T element = static_cast<T>(value);
    cpu.parallel_for(x.elements(), grain_for(1), [&](int64_t begin, int64_t end) { std::fill(data + begin, data + end, element); });
  });
}

}  // namespace sluice::kernels
