#include <algorithm>
#include <cmath>

#include "core/ops/rotary.h"

namespace sluice::kernels {

namespace {

template <class C>
void fill_table(C* table, int64_t tokens, int64_t half, int64_t first_position, double base, int direction) {
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first_position + t) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      table[t * 2 * half + i] = static_cast<C>(std::cos(angle));
      table[t * 2 * half + half + i] = static_cast<C>(direction * std::sin(angle));
    }
}

template <class T>
void rotate_head(const T* x, T* y, const compute_t<T>* cosines, int64_t half) {
  const compute_t<T>* sines = cosines + half;
  for (int64_t i = 0; i < half; ++i) {
    const compute_t<T> first = x[i], second = x[half + i];
    y[i] = static_cast<T>(first * cosines[i] - second * sines[i]);
    y[half + i] = static_cast<T>(second * cosines[i] + first * sines[i]);
  }
}

}  // namespace

void rotary(Cpu& cpu, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int64_t first_position, double base,
            int direction) {
  const int64_t tokens = x.dim(1), heads = x.dim(2), width = x.dim(3);
  on_float(x.dtype(), "rotary", [&]<class T>() {
    auto* angles = table.data<compute_t<T>>();
    fill_table(angles, tokens, width / 2, first_position, base, direction);
    cpu.parallel_for(x.dim(0) * tokens, grain_for(heads * width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * heads * width;
        T* to = y.data<T>() + row * heads * width;
        for (int64_t head = 0; head < rotated_heads; ++head)
          rotate_head(from + head * width, to + head * width, angles + row % tokens * width, width / 2);
        std::copy(from + rotated_heads * width, from + heads * width, to + rotated_heads * width);
      }
    });
  });
}

}  // namespace sluice::kernels
