#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/rotary.h"

namespace sluice::kernels {

namespace {

template <class T>
void rotate_head(const T* x, T* y, const compute_t<T>* sines, int64_t half, compute_t<T> direction) {
  const compute_t<T>* cosines = sines + half;
  for (int64_t i = 0; i < half; ++i) {
    const compute_t<T> first = x[i], second = x[half + i], sine = direction * sines[i];
    y[i] = static_cast<T>(first * cosines[i] - second * sine);
    y[half + i] = static_cast<T>(second * cosines[i] + first * sine);
  }
}

}  // namespace

void rotary(Cpu& cpu, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int direction) {
  const int64_t tokens = x.dim(1), heads = x.dim(2), width = x.dim(3);
  on_float(x.dtype(), "rotary", [&]<class T>() {
    const auto* angles = table.data<compute_t<T>>();
    cpu.parallel_for(x.dim(0) * tokens, grain_for(heads * width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * heads * width;
        T* to = y.data<T>() + row * heads * width;
        for (int64_t head = 0; head < rotated_heads; ++head)
          rotate_head<T>(from + head * width, to + head * width, angles + row % tokens * width, width / 2, direction);
        std::copy(from + rotated_heads * width, from + heads * width, to + rotated_heads * width);
      }
    });
  });
}

}  // namespace sluice::kernels
