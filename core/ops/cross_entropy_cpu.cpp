#include <numeric>

#include "core/cpu/cpu.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/rows_cpu.h"

namespace sluice::kernels {

namespace {

/// In one thread before any work, so that the error names the first bad row.
template <class Id>
void check_targets(const Id* targets, int64_t rows, int64_t classes, int64_t ignore_index) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto target = static_cast<int64_t>(targets[row]);
    require(target == ignore_index || (0 <= target && target < classes), "cross_entropy: needs targets in [0, ", classes,
            ") or ignore_index ", ignore_index, ", got ", target, " at row ", row);
  }
}

/// What multiplies the -log p of a row: loss = target(t) * nll[t] + sum_c spread * w[c] * nll[c].
template <class C>
struct Coefficients {
  Coefficients(const CrossEntropyOptions& options, int64_t classes)
      : w(options.weights.defined() ? options.weights.data<C>() : nullptr),
        kept(static_cast<C>(1 - options.label_smoothing)),
        spread(static_cast<C>(options.label_smoothing / static_cast<double>(classes))),
        spread_sum(static_cast<C>(options.label_smoothing)) {
    if (w && spread > 0) spread_sum = spread * read(w, classes).sum();
  }
  C target(int64_t t) const { return w ? kept * w[t] : kept; }
  C spread_on(int64_t c) const { return w ? spread * w[c] : spread; }

  const C* w;
  C kept, spread;
  C spread_sum;  ///< sum_c spread * w[c]
};

/// The loss of one row; leaves the row's maximum and sum of exponentials.
template <class T, class C = compute_t<T>>
double row_loss(const T* logits, int64_t n, int64_t target, const Coefficients<C>& coefficients, C* row_sums) {
  const auto z = read(logits, n);
  const C maximum = z.maxCoeff(), exp_sum = exponentials(z - maximum).sum();
  row_sums[0] = maximum;
  row_sums[1] = exp_sum;
  const double log_sum = std::log(static_cast<double>(exp_sum));
  double loss = coefficients.target(target) * (log_sum + (maximum - static_cast<C>(logits[target])));
  if (coefficients.spread > 0) {
    const C gap = coefficients.w ? ((maximum - z) * read(coefficients.w, n)).sum() : (maximum - z).sum();
    loss += coefficients.spread_sum * log_sum + coefficients.spread * gap;
  }
  return loss;
}

/// dlogits = factor * (p * (target(t) + spread_sum) - spread * w - target(t) at t).
template <class T, class C = compute_t<T>>
void row_gradient(const T* logits, int64_t n, int64_t target, const Coefficients<C>& coefficients, const C* row_sums, C factor,
                  T* dlogits) {
  const C on_target = coefficients.target(target), slope = factor * (on_target + coefficients.spread_sum) / row_sums[1];
  const C at_target = std::exp(static_cast<C>(logits[target]) - row_sums[0]) * slope;  // before dlogits, which may lie in its place
  const auto scaled = exponentials(read(logits, n) - row_sums[0]) * slope;
  if (coefficients.spread == 0)
    write(dlogits, n, scaled);
  else if (coefficients.w)
    write(dlogits, n, scaled - read(coefficients.w, n) * (factor * coefficients.spread));
  else
    write(dlogits, n, scaled - factor * coefficients.spread);
  dlogits[target] = static_cast<T>(at_target - factor * (coefficients.spread_on(target) + on_target));
}

}  // namespace

void cross_entropy(Cpu& cpu, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, double scale,
                   const Tensor& row_losses, const CrossEntropyResult& result) {
  const int64_t n = logits.dim(1), rows = targets.elements(), stride = logits.stride(0);
  const auto run = [&]<class Id, class T, class C = compute_t<T>>(const Id* target, const T* z, C* row_sums, C* loss) {
    check_targets(target, rows, n, options.ignore_index);
    const Coefficients<C> coefficients(options, n);
    double* losses = row_losses.data<double>();
    cpu.parallel_for(rows, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        losses[i] = target[i] == options.ignore_index ? 0 : row_loss(z + i * stride, n, target[i], coefficients, row_sums + 2 * i);
    });
    *loss = static_cast<C>(scale * std::accumulate(losses, losses + rows, 0.0));
  };
  on_index(targets.dtype(), "cross_entropy", [&]<class Id>() {
    on_float(logits.dtype(), "cross_entropy", [&]<class T>() {
      using C = compute_t<T>;
      run(targets.data<Id>(), logits.data<T>(), result.row_sums.data<C>(), result.loss.data<C>());
    });
  });
}

void cross_entropy_backward(Cpu& cpu, const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                            const CrossEntropyOptions& options, double scale, const Tensor& dlogits) {
  const int64_t n = logits.dim(1), stride = logits.stride(0), to_stride = dlogits.stride(0);
  const auto run = [&]<class Id, class T, class C = compute_t<T>>(const Id* target, const T* z, const C* row_sums, C factor, T* dz) {
    const Coefficients<C> coefficients(options, n);
    cpu.parallel_for(targets.elements(), grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (target[i] == options.ignore_index)
          std::fill_n(dz + i * to_stride, n, T(0));
        else
          row_gradient(z + i * stride, n, target[i], coefficients, row_sums + 2 * i, factor, dz + i * to_stride);
    });
  };
  on_index(targets.dtype(), "cross_entropy", [&]<class Id>() {
    on_float(logits.dtype(), "cross_entropy", [&]<class T>() {
      using C = compute_t<T>;
      const C factor = static_cast<C>(scale * static_cast<double>(*dy.data<C>()));
      run(targets.data<Id>(), logits.data<T>(), row_sums.data<C>(), factor, dlogits.data<T>());
    });
  });
}

double cross_entropy_weight(const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor& weights = options.weights;
  double total = 0;
  const auto add = [&]<class Id, class W>(const Id* target, const W* weight) {
    if (weight) check_targets(target, targets.elements(), weights.elements(), options.ignore_index);
    for (int64_t i = 0; i < targets.elements(); ++i)
      if (target[i] != options.ignore_index) total += weight ? weight[target[i]] : 1;
  };
  on_index(targets.dtype(), "cross_entropy_weight", [&]<class Id>() {
    if (!weights.defined()) return add(targets.data<Id>(), static_cast<const float*>(nullptr));
    on_float(weights.dtype(), "cross_entropy_weight", [&]<class W>() { add(targets.data<Id>(), weights.data<W>()); });
  });
  return total;
}

}  // namespace sluice::kernels
