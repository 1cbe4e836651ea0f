#include "core/ops/broadcast_cuda.cuh"
#include "core/ops/concat_sums.h"
#include "core/ops/elementwise_rules.h"

namespace sluice::kernels {

namespace {

/// Parts side by side in rows of a matrix: as many as one launch takes.
template <class T>
struct PartList {
  static constexpr size_t kMost = 32;
  struct Part {
    int64_t first, width;
    T *a, *b;     ///< what a kernel reads; b is a where there is nothing to add. Or a gradient, null where nobody needs it
    bool is_sum;  ///< a may be added to itself
  };
  int count = 0;
  int64_t columns = 0;
  Part at[kMost];

  void add(int64_t width, T* a, T* b, bool is_sum) {
    at[count++] = {columns, width, a, b, is_sum};
    columns += width;
  }
  __device__ const Part& of(int64_t column) const {
    int i = 0;
    while (i + 1 < count && at[i + 1].first <= column) ++i;
    return at[i];
  }
};

struct Unchanged {
  template <class V>
  SLUICE_HD static V value(V x) {
    return x;
  }
  template <class V>
  SLUICE_HD static V slope(V) {
    return V(1);
  }
};

/// A thread makes kWidth neighbours of y, whose rows lie `stride` apart.
template <class Rule, int kWidth, class T>
__global__ void join(const __grid_constant__ PartList<const T> parts, T* y, int64_t stride, int64_t count) {
  const int64_t first = grid_index() * kWidth;
  if (first >= count) return;
  const int64_t row = first / parts.columns, column = first - row * parts.columns;
  const auto& part = parts.of(column);
  const int64_t from = row * part.width + column - part.first;
  const auto of_a = load_whole<Run<kWidth, T>>(part.a + from), of_b = load_whole<Run<kWidth, T>>(part.b + from);
  const auto a = std::bit_cast<Run<kWidth, T>>(of_a), b = std::bit_cast<Run<kWidth, T>>(of_b);
  Run<kWidth, T> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const Scalar<T> left(static_cast<compute_t<T>>(a.at[i])), right(static_cast<compute_t<T>>(b.at[i]));
    result.at[i] = static_cast<T>(Rule::value(part.is_sum ? left + right : left).value);
  }
  store_run(y + row * stride + column, result);
}

/// A thread makes kWidth neighbours of one gradient. y is dy where no rule reads it.
template <class Rule, int kWidth, class T>
__global__ void take_apart(const __grid_constant__ PartList<T> parts, const T* dy, const T* y, int64_t stride, int64_t count) {
  const int64_t first = grid_index() * kWidth;
  if (first >= count) return;
  const int64_t row = first / parts.columns, column = first - row * parts.columns;
  const auto& part = parts.of(column);
  if (!part.a) return;
  const int64_t from = row * stride + column;
  const auto of_dy = load_whole<Run<kWidth, T>>(dy + from), of_y = load_whole<Run<kWidth, T>>(y + from);
  const auto gradient = std::bit_cast<Run<kWidth, T>>(of_dy), value = std::bit_cast<Run<kWidth, T>>(of_y);
  Run<kWidth, T> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const compute_t<T> slope = Rule::slope(Scalar<T>(static_cast<compute_t<T>>(value.at[i]))).value;
    result.at[i] = static_cast<T>(static_cast<compute_t<T>>(gradient.at[i]) * slope);
  }
  store_run(part.a + row * part.width + column - part.first, result);
}

/// Whether all threads may take runs of packs: of matrices whose rows lie `stride` apart, too.
template <class T, class Element, class... Matrices>
bool takes_packs(const PartList<Element>& parts, int64_t stride, const Matrices*... matrices) {
  bool fit = packs_fit<T>(stride, matrices...);
  for (int i = 0; i < parts.count; ++i) fit = fit && packs_fit<T>(parts.at[i].width, parts.at[i].a, parts.at[i].b);
  return fit;
}

/// Calls f(list, its first column) for lists of all parts; add(list, i) puts in the i-th.
template <class Element, class Add, class F>
void in_part_lists(size_t count, const Add& add, const F& f) {
  int64_t column = 0;
  for (size_t i = 0; i < count;) {
    PartList<Element> list;
    for (; i < count && list.count < static_cast<int>(PartList<Element>::kMost); ++i) add(list, i);
    if (list.columns > 0) f(list, column);
    column += list.columns;
  }
}

template <class T, class F>
void on_rule_and_width(bool relu, bool packs, F&& f) {
  const auto on_width = [&]<class Rule>() {
    if (packs) return f.template operator()<Rule, Pack<T>::kCount>();
    f.template operator()<Rule, 1>();
  };
  if (relu) return on_width.template operator()<rules::Relu>();
  on_width.template operator()<Unchanged>();
}

}  // namespace

void concat_sums(Cuda& cuda, const std::vector<Addends>& parts, bool relu, const Tensor& y) {
  const int64_t columns = y.dim(-1), rows = y.shape().elements_before(-1);
  on_float(y.dtype(), "concat_sums", [&]<class T>() {
    const auto add = [&](PartList<const T>& list, size_t i) {
      const auto& [a, b] = parts[i];
      list.add(a.dim(-1), a.data<T>(), b.defined() ? b.data<T>() : a.data<T>(), b.defined());
    };
    in_part_lists<const T>(parts.size(), add, [&](const PartList<const T>& list, int64_t column) {
      T* to = y.data<T>() + column;
      on_rule_and_width<T>(relu, takes_packs<T>(list, columns, to), [&]<class Rule, int kWidth>() {
        const int64_t count = rows * list.columns;
        launch(cuda, "concat_sums", run_shape(count, kWidth), join<Rule, kWidth, T>, list, to, columns, count);
      });
    });
  });
}

void concat_sums_backward(Cuda& cuda, const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                          const std::vector<Tensor>& gradients) {
  const int64_t columns = dy.dim(-1), rows = dy.shape().elements_before(-1);
  on_float(dy.dtype(), "concat_sums_backward", [&]<class T>() {
    const auto add = [&](PartList<T>& list, size_t i) {
      list.add(widths[i], gradients[i].defined() ? gradients[i].data<T>() : nullptr, nullptr, false);
    };
    in_part_lists<T>(widths.size(), add, [&](const PartList<T>& list, int64_t column) {
      const T *from = dy.data<T>() + column, *result = y.defined() ? y.data<T>() + column : from;
      on_rule_and_width<T>(y.defined(), takes_packs<T>(list, columns, from, result), [&]<class Rule, int kWidth>() {
        const int64_t count = rows * list.columns;
        launch(cuda, "concat_sums_backward", run_shape(count, kWidth), take_apart<Rule, kWidth, T>, list, from, result, columns, count);
      });
    });
  });
}

}  // namespace sluice::kernels
