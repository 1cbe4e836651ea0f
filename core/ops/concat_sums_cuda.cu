#include "core/ops/array_list_cuda.cuh"
#include "core/ops/concat_sums.h"
#include "core/ops/concat_sums_rules.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kPartThreads = 256;
constexpr int kMostParts = 56;  // of a launch

/// Rows of `width` elements that are side by side with other parts' in the rows of a matrix, from `column` on. A block has kWidth neighbours
/// a thread of one part.
struct PartOfRows {
  int64_t count, width, column;  ///< elements in all and of a row
  unsigned first_block;
};
template <class T>
struct Joined : PartOfRows {
  const T *a, *b;  ///< b is a where there is nothing to add
  bool is_sum;     ///< a may be added to itself
};
template <class T>
struct TakenApart : PartOfRows {
  T* gradient;
};
template <class Part>
using Parts = ArrayList<Part, kMostParts>;
static_assert(sizeof(Parts<Joined<float>>) + 3 * sizeof(void*) <= kArgumentBytes);

/// The thread's first element of its block's part, and where it is in a matrix whose rows lie `stride` apart.
struct Place {
  int64_t in_part, in_rows;
};
template <int kWidth>
__device__ Place place_in(const PartOfRows& part, int64_t stride) {
  const int64_t at = (int64_t{blockIdx.x - part.first_block} * kPartThreads + threadIdx.x) * kWidth, row = at / part.width;
  return {at, row * stride + part.column + at - row * part.width};
}

template <class Rule, int kWidth, class T>
__global__ void join(const __grid_constant__ Parts<Joined<T>> parts, T* y, int64_t stride) {
  const Joined<T>& part = parts.of_block();
  const Place place = place_in<kWidth>(part, stride);
  if (place.in_part >= part.count) return;
  const auto of_a = load_whole<Run<kWidth, T>>(part.a + place.in_part), of_b = load_whole<Run<kWidth, T>>(part.b + place.in_part);
  const auto a = std::bit_cast<Run<kWidth, T>>(of_a), b = std::bit_cast<Run<kWidth, T>>(of_b);
  Run<kWidth, T> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const Scalar<T> left(static_cast<compute_t<T>>(a.at[i])), right(static_cast<compute_t<T>>(b.at[i]));
    result.at[i] = static_cast<T>(Rule::value(part.is_sum ? left + right : left).value);
  }
  store_run(y + place.in_rows, result);
}

/// y is dy where no rule reads it.
template <class Rule, int kWidth, class T>
__global__ void take_apart(const __grid_constant__ Parts<TakenApart<T>> parts, const T* dy, const T* y, int64_t stride) {
  const TakenApart<T>& part = parts.of_block();
  const Place place = place_in<kWidth>(part, stride);
  if (place.in_part >= part.count) return;
  const auto of_dy = load_whole<Run<kWidth, T>>(dy + place.in_rows), of_y = load_whole<Run<kWidth, T>>(y + place.in_rows);
  const auto gradient = std::bit_cast<Run<kWidth, T>>(of_dy), value = std::bit_cast<Run<kWidth, T>>(of_y);
  Run<kWidth, T> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const compute_t<T> slope = Rule::slope(Scalar<T>(static_cast<compute_t<T>>(value.at[i]))).value;
    result.at[i] = static_cast<T>(static_cast<compute_t<T>>(gradient.at[i]) * slope);
  }
  store_run(part.gradient + place.in_part, result);
}

/// Calls launch_list<Rule, kWidth>(list) for lists of the parts, with whole packs for a thread where `packs` says that they are aligned.
template <class T, class Part, class F>
void in_part_lists(const std::vector<Part>& parts, bool relu, bool packs, const F& launch_list) {
  const auto with_width = [&]<int kWidth>() {
    rules::on_relu_or_unchanged(relu, [&]<class Rule>() {
      in_lists<kMostParts>(parts, int64_t{kPartThreads} * kWidth,
                           [&](const Parts<Part>& list) { launch_list.template operator()<Rule, kWidth>(list); });
    });
  };
  if (packs) return with_width.template operator()<Pack<T>::kCount>();
  with_width.template operator()<1>();
}

}  // namespace

void concat_sums(Cuda& cuda, const std::vector<Addends>& parts, bool relu, const Tensor& y) {
  const int64_t stride = y.dim(-1);
  on_float(y.dtype(), "concat_sums", [&]<class T>() {
    T* to = y.data<T>();
    std::vector<Joined<T>> joined;
    bool packs = packs_fit<T>(stride, to);
    int64_t column = 0;
    for (const Addends& part : parts) {
      const int64_t width = part.a.dim(-1);
      const T *a = part.a.data<T>(), *b = part.b.defined() ? part.b.data<T>() : a;
      joined.push_back({{part.a.elements(), width, column, 0}, a, b, part.b.defined()});
      packs = packs && packs_fit<T>(width, a, b);
      column += width;
    }
    in_part_lists<T>(joined, relu, packs, [&]<class Rule, int kWidth>(const Parts<Joined<T>>& list) {
      launch(cuda, "concat_sums", {list.blocks, kPartThreads}, join<Rule, kWidth, T>, list, to, stride);
    });
  });
}

void concat_sums_backward(Cuda& cuda, const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                          const std::vector<Tensor>& gradients) {
  const int64_t stride = dy.dim(-1);
  on_float(dy.dtype(), "concat_sums_backward", [&]<class T>() {
    const T *from = dy.data<T>(), *result = y.defined() ? y.data<T>() : from;
    std::vector<TakenApart<T>> apart;
    bool packs = packs_fit<T>(stride, from, result);
    int64_t column = 0;
    for (size_t i = 0; i < widths.size(); column += widths[i++]) {
      packs = packs && widths[i] % Pack<T>::kCount == 0;
      if (!gradients[i].defined()) continue;
      apart.push_back({{gradients[i].elements(), widths[i], column, 0}, gradients[i].data<T>()});
      packs = packs && packs_fit<T>(0, apart.back().gradient);
    }
    in_part_lists<T>(apart, y.defined(), packs, [&]<class Rule, int kWidth>(const Parts<TakenApart<T>>& list) {
      launch(cuda, "concat_sums_backward", {list.blocks, kPartThreads}, take_apart<Rule, kWidth, T>, list, from, result, stride);
    });
  });
}

}  // namespace sluice::kernels
