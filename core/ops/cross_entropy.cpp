#include "core/ops/cross_entropy.h"

#include "core/dispatch.h"
#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require(logits.rank() >= 1 && logits.dim(-1) > 0, "cross_entropy: needs logits [..., V] with V >= 1, got ", logits);
  require(targets.shape() == logits.shape().without(-1) && !is_floating(targets.dtype()), "cross_entropy: needs integer targets ",
          logits.shape().without(-1), " for logits ", logits.shape(), ", got ", targets);
  require(0 <= options.label_smoothing && options.label_smoothing < 1, "cross_entropy: needs label_smoothing in [0, 1), got ",
          options.label_smoothing);
  const Tensor& weights = options.weights;
  if (weights.defined())
    require(weights.shape() == Shape{logits.dim(-1)} && weights.dtype() == compute_dtype(logits.dtype()),
            "cross_entropy: needs class weights ", name_of(compute_dtype(logits.dtype())), " ", Shape{logits.dim(-1)}, ", got ", weights);
}

/// As kernels read them.
CrossEntropyOptions contiguous(CrossEntropyOptions options) {
  if (options.weights.defined()) options.weights = options.weights.contiguous();
  return options;
}

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& given, double scale) {
  check(logits, targets, given);
  const CrossEntropyOptions options = contiguous(given);
  const Tensor rows = as_matrix(logits), classes = targets.contiguous();
  const DevicePtr& device = logits.device_ptr();
  const CrossEntropyResult result{empty({}, compute_dtype(logits.dtype()), device),
                                  empty({targets.elements(), 2}, compute_dtype(logits.dtype()), device)};
  const Tensor row_losses = empty({targets.elements()}, DType::f64, device);
  const Cost cost{4 * static_cast<double>(logits.elements()), static_cast<double>(logits.bytes() + targets.bytes()),
                  static_cast<double>(result.row_sums.bytes())};
  run_kernel("cross_entropy", {rows, classes, options.weights}, cost,
             [&](auto& context) { kernels::cross_entropy(context, rows, classes, options, scale, row_losses, result); });
  return result;
}

Tensor cross_entropy_backward(const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                              const CrossEntropyOptions& options, double scale) {
  const Tensor dlogits = empty_rows(logits.shape(), logits.dtype(), logits.device_ptr());
  cross_entropy_backward_into(dy, logits, targets, row_sums, options, scale, dlogits);
  return dlogits;
}

void cross_entropy_backward_into(const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                                 const CrossEntropyOptions& given, double scale, const Tensor& dlogits) {
  check(logits, targets, given);
  const CrossEntropyOptions options = contiguous(given);
  require(dlogits.shape() == logits.shape() && dlogits.dtype() == logits.dtype() && has_rows(dlogits),
          "cross_entropy: needs a gradient with contiguous rows like logits ", logits, ", got ", dlogits);
  const Tensor rows = as_matrix(logits), classes = targets.contiguous(), sums = row_sums.contiguous();
  const Cost cost{4 * static_cast<double>(logits.elements()), static_cast<double>(logits.bytes() + targets.bytes() + row_sums.bytes()),
                  static_cast<double>(dlogits.bytes())};
  run_kernel("cross_entropy_backward", {rows, classes, dy, sums, options.weights, dlogits}, cost,
             [&](auto& context) { kernels::cross_entropy_backward(context, dy, rows, classes, sums, options, scale, as_matrix(dlogits)); });
}

double cross_entropy_weight(const Tensor& targets, const CrossEntropyOptions& options) {
  const auto number = static_cast<double>(targets.elements());
  Device& device = targets.device();
  device.count({number, static_cast<double>(targets.bytes()), 0}, "cross_entropy_weight");
  if (device.kind() == DeviceKind::meta) return number;
  CrossEntropyOptions on_host = options;
  if (options.weights.defined()) on_host.weights = options.weights.contiguous().to(default_device());
  return kernels::cross_entropy_weight(targets.contiguous().to(default_device()), on_host);
}

}  // namespace sluice
