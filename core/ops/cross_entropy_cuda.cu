#include "core/ops/cross_entropy.h"
#include "core/ops/indices_cuda.cuh"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kPacksOfThread = 4;  // in flight, of a row that is read once

/// The arguments of both passes, and what multiplies the -log p of a row: loss = target(t) * nll[t] + sum_c spread * w[c] * nll[c].
template <class T, class C = compute_t<T>>
struct Rows {
  Rows(Cuda& cuda, const Tensor& x, const Tensor& t, const CrossEntropyOptions& options)
      : logits(x.data<T>()),
        targets(t),
        w(options.weights.defined() ? options.weights.data<C>() : nullptr),
        ignore_index(options.ignore_index),
        rows(x.dim(0)),
        stride(x.stride(0)),
        classes(static_cast<int>(x.dim(1))),
        kept(static_cast<C>(1 - options.label_smoothing)),
        spread(static_cast<C>(options.label_smoothing / static_cast<double>(x.dim(1)))),
        smoothing(static_cast<C>(options.label_smoothing)),
        faults(cuda.faults()) {}

  __device__ C weight(int64_t c) const { return w ? w[c] : C(1); }
  __device__ bool is_class(int64_t target) const { return 0 <= target && target < classes; }
  /// sum_c spread * w[c], for every thread of a team.
  __device__ C spread_sum() const {
    if (!w || spread == 0) return smoothing;
    C sum = 0;
    for (int c = threadIdx.x; c < classes; c += blockDim.x) sum += w[c];
    return spread * team_sum(sum);
  }

  const T* logits;
  Indices targets;
  const C* w;
  int64_t ignore_index, rows, stride;  ///< stride from one row of logits to the next, in elements
  int classes;
  C kept, spread, smoothing;
  Cuda::Faults* faults;
};

/// The loss of each row, and its maximum and sum of exponentials. A row that counts nothing is not read.
template <class T>
__global__ void __launch_bounds__(kMostRowThreads, 2) row_losses(Rows<T> from, bool packed, compute_t<T>* row_sums, double* losses) {
  using C = compute_t<T>;
  const int64_t at_row = team_row(), offset = at_row * from.stride;
  const bool exists = at_row < from.rows;
  const int64_t target = exists ? from.targets[at_row] : 0;
  const bool counts = exists && target != from.ignore_index && from.is_class(target);
  Row<T, 0> logits(from.logits + offset, counts ? from.classes : 0, packed, -static_cast<C>(INFINITY));
  const C first = counts ? static_cast<C>(from.logits[offset]) : C(0);  // differences from it keep the digits of large logits
  OnlineSum<C> total;
  TwoSums<C> spread{0, 0};  // of w and of w * (first - logit)
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
        total.add(pack);
        if (from.spread == 0) return;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) {
          const C weight = counts && at + j < from.classes ? from.weight(at + j) : C(0);
          spread.first += weight;
          spread.second += weight == 0 ? C(0) : weight * (first - static_cast<C>(pack.at[j]));
        }
      },
      logits);
  total = total.of_team();
  if (from.spread > 0) spread = team_sums(spread);
  if (!exists || threadIdx.x > 0) return;
  double loss = 0;
  if (counts) {
    const double log_sum = ::log(static_cast<double>(total.sum));
    loss = from.kept * from.weight(target) * (log_sum + (total.maximum - static_cast<C>(from.logits[offset + target])));
    loss += from.spread * (spread.first * (log_sum + (total.maximum - first)) + spread.second);
  } else if (target != from.ignore_index) {
    keep_fault(from.faults, Cuda::FaultKind::target_class, at_row, target, from.classes);
    loss = NAN;
  }
  losses[at_row] = loss;
  row_sums[2 * at_row] = total.maximum;
  row_sums[2 * at_row + 1] = total.sum;
}

template <class C>
__global__ void sum_losses(const double* losses, int64_t rows, double scale, C* loss) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) sum += losses[i];
  sum = team_sum(sum);
  if (threadIdx.x == 0) *loss = static_cast<C>(scale * sum);
}

/// A team's row of n zeros.
template <class T>
__device__ void write_zeros(T* row, int n, bool packed) {
  for (int at = threadIdx.x * Pack<T>::kCount; at < n; at += blockDim.x * Pack<T>::kCount) write_pack(row, at, n, packed, Pack<T>{});
}

/// dlogits = factor * (p * (target(t) + spread_sum) - spread * w - target(t) at t); 0 in rows that count nothing, which are
/// not read. A thread reads the logits of a pack before it writes their gradient, which may lie in their place.
template <class T>
__global__ void __launch_bounds__(kMostRowThreads, 2)
    row_gradients(Rows<T> from, bool packed, const compute_t<T>* row_sums, const compute_t<T>* dy, double scale, T* dlogits,
                  int64_t dlogits_stride) {
  using C = compute_t<T>;
  const int64_t at_row = team_row();
  const C spread_sum = from.spread_sum();
  if (at_row >= from.rows) return;
  const int64_t target = from.targets[at_row];
  T* const gradients = dlogits + at_row * dlogits_stride;
  if (target == from.ignore_index) return write_zeros(gradients, from.classes, packed);
  const bool bad = !from.is_class(target);
  const int at_target = bad ? -1 : static_cast<int>(target);
  const C factor = static_cast<C>(scale * static_cast<double>(*dy));
  const C on_target = bad ? C(0) : from.kept * from.weight(target), maximum = row_sums[2 * at_row];
  const C slope = bad ? C(NAN) : factor * (on_target + spread_sum) / row_sums[2 * at_row + 1];
  Row<T, 0> logits(from.logits + at_row * from.stride, from.classes, packed, maximum);
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
        Pack<T> gradient;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) {
          C value = exponential(static_cast<C>(pack.at[j]) - maximum) * slope;
          if (from.spread > 0 && at + j < from.classes) value -= factor * from.spread * from.weight(at + j);
          if (at + j == at_target) value -= factor * on_target;
          gradient.at[j] = static_cast<T>(value);
        }
        write_pack(gradients, at, from.classes, packed, gradient);
      },
      logits);
}

}  // namespace

void cross_entropy(Cuda& cuda, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, double scale,
                   const Tensor& row_losses, const CrossEntropyResult& result) {
  constexpr int kThreads = 1024;
  const int64_t n = logits.dim(1), rows = logits.dim(0);
  on_float(logits.dtype(), "cross_entropy", [&]<class T>() {
    using C = compute_t<T>;
    const RowTeams teams = RowTeams::of<T>(n, kPacksOfThread);
    launch(cuda, "cross_entropy", {teams.grid(rows), teams.block()}, kernels::row_losses<T>, Rows<T>(cuda, logits, targets, options),
           packs_fit<T>(logits.stride(0), logits.data<T>()), result.row_sums.data<C>(), row_losses.data<double>());
    launch(cuda, "cross_entropy", {1, kThreads}, sum_losses<C>, row_losses.data<double>(), rows, scale, result.loss.data<C>());
  });
}

void cross_entropy_backward(Cuda& cuda, const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                            const CrossEntropyOptions& options, double scale, const Tensor& dlogits) {
  const int64_t n = logits.dim(1), rows = logits.dim(0);
  on_float(logits.dtype(), "cross_entropy", [&]<class T>() {
    using C = compute_t<T>;
    const RowTeams teams = RowTeams::of<T>(n, kPacksOfThread);
    launch(cuda, "cross_entropy_backward", {teams.grid(rows), teams.block()}, row_gradients<T>, Rows<T>(cuda, logits, targets, options),
           packs_fit<T>(logits.stride(0), logits.data<T>()) && packs_fit<T>(dlogits.stride(0), dlogits.data<T>()), row_sums.data<C>(),
           dy.data<C>(), scale, dlogits.data<T>(), dlogits.stride(0));
  });
}

}  // namespace sluice::kernels
