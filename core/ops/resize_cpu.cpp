#include <vector>

#include "core/cpu/cpu.h"
#include "core/ops/lanes.h"
#include "core/ops/resize.h"

namespace sluice::kernels {

namespace {

/// What an old pixel gave: the new pixels from `begin` on, with the weight of each.
template <class C>
struct Reached {
  Reached(const ResizedAxis& axis, int64_t old) : begin(axis.begin(old)) {
    for (int64_t i = begin; i < axis.end(old); ++i) weights.push_back(axis.weight<C>(i, old));
  }
  int64_t begin;
  std::vector<C> weights;
};

}  // namespace

void resize2d(Cpu& cpu, const Tensor& x, const ResizePlan& plan, const Tensor& y) {
  const auto& [batch, channels, rows, columns] = plan;
  on_float(x.dtype(), "resize2d", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    cpu.parallel_for(batch * rows.out, grain_for(4 * columns.out * channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto of_row = rows.place<C>(row % rows.out);
        const T* image = from + row / rows.out * rows.in * columns.in * channels;
        const T *upper = image + of_row.first * columns.in * channels, *lower = image + rows.after(of_row.first) * columns.in * channels;
        for (int64_t column = 0; column < columns.out; ++column) {
          const auto of_column = columns.place<C>(column);
          const int64_t left = of_column.first * channels, right = columns.after(of_column.first) * channels;
          const Lanes<C> across = static_cast<double>(of_column.share), down = static_cast<double>(of_row.share);
          for_lanes<T>(0, channels, [&](auto load, auto store) {
            const auto top = load(upper + left) + across * (load(upper + right) - load(upper + left));
            const auto bottom = load(lower + left) + across * (load(lower + right) - load(lower + left));
            store(to + (row * columns.out + column) * channels, top + down * (bottom - top));
          });
        }
      }
    });
  });
}

void resize2d_backward(Cpu& cpu, const Tensor& dy, const ResizePlan& plan, const Tensor& dx) {
  const auto& [batch, channels, rows, columns] = plan;
  on_float(dy.dtype(), "resize2d_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = dy.data<T>();
    T* to = dx.data<T>();
    const int64_t work = (rows.out / rows.in + 1) * columns.out * channels;
    cpu.parallel_for(batch * rows.in, grain_for(4 * work), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Reached<C> below(rows, row % rows.in);
        const T* image = from + row / rows.in * rows.out * columns.out * channels;
        for (int64_t column = 0; column < columns.in; ++column) {
          const Reached<C> beside(columns, column);
          for_lanes<T>(0, channels, [&](auto load, auto store) {
            Lanes<C> sum(0);
            for (size_t i = 0; i < below.weights.size(); ++i)
              for (size_t j = 0; j < beside.weights.size(); ++j) {
                const C weight = below.weights[i] * beside.weights[j];
                if (weight == 0) continue;
                const int64_t pixel = (below.begin + static_cast<int64_t>(i)) * columns.out + beside.begin + static_cast<int64_t>(j);
                sum = sum + Lanes<C>(static_cast<double>(weight)) * load(image + pixel * channels);
              }
            store(to + (row * columns.in + column) * channels, sum);
          });
        }
      }
    });
  });
}

}  // namespace sluice::kernels
