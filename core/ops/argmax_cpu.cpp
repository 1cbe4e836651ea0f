#include "core/cpu/cpu.h"
#include "core/ops/argmax.h"
#include "core/ops/rows_cpu.h"

namespace sluice::kernels {

namespace {

/// The maximum is vectorised, an index beside it would not be; so the index is searched for afterwards, in the cache.
template <class T>
int64_t argmax_row(const T* x, int64_t n) {
  const auto largest = read(x, n).template maxCoeff<Eigen::PropagateNaN>();
  int64_t index = 0;
  while (x[index] < largest) ++index;
  return index;
}

}  // namespace

void argmax(Cpu& cpu, const Tensor& x, const Tensor& y) {
  const int64_t n = x.dim(-1);
  on_float(x.dtype(), "argmax", [&]<class T>() {
    cpu.parallel_for(y.elements(), grain_for(n), [n, x = x.data<T>(), y = y.data<int64_t>()](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) y[row] = argmax_row(x + row * n, n);
    });
  });
}

}  // namespace sluice::kernels
