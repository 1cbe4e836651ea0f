#include "core/ops/linear.h"

#include "core/dispatch.h"
#include "core/ops/matmul.h"
#include "core/ops/padded_rows.h"
#include "core/ops/padding.h"
#include "core/ops/reduction.h"
#include "core/ops/row_chunks.h"

namespace sluice {

namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1), "linear: needs x [..., in] and weight [out, in], got ",
          x.shape(), " and ", weight.shape());
  require(!bias.defined() || (bias.rank() == 1 && bias.dim(0) == weight.dim(0) && bias.dtype() == x.dtype()), "linear: needs a bias of ",
          name_of(x.dtype()), " [", weight.dim(0), "], got ", bias);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x, weight, bias);
  Tensor y = empty_rows(x.shape().with(-1, weight.dim(0)), x.dtype(), x.device_ptr());
  matmul_into(as_matrix(x.contiguous()), weight, as_matrix(y), false, true, 0, bias.defined() ? bias.contiguous() : bias);
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& lengths) {
  if (!lengths.defined()) return linear(x, weight, bias);
  check(x, weight, bias);
  require(x.rank() == 3, "linear: needs x [B, T, in] beside lengths, got ", x.shape());
  check_lengths("linear", lengths, x.dim(0));
  device_of("linear", {x, weight, bias, lengths});  // also where there is nothing to multiply
  Tensor y = empty_rows(x.shape().with(-1, weight.dim(0)), x.dtype(), x.device_ptr());
  if (y.elements() > 0)
    matmul_without_padding(as_matrix(x.contiguous()), weight, as_matrix(y), false, true, lengths,
                           bias.defined() ? bias.contiguous() : bias);
  return y;
}

Tensor sum_rows(const Tensor& dy, const Tensor& lengths) {
  require(dy.rank() >= 1, "sum_rows: needs at least one axis, got ", dy.shape());
  if (lengths.defined()) {
    require(dy.rank() == 3, "sum_rows: needs dy [B, T, O] beside lengths, got ", dy.shape());
    check_lengths("sum_rows", lengths, dy.dim(0));
  }
  const bool on_gpu = dy.device().backend() == DeviceKind::cuda;
  const Tensor per_sample = lengths.defined() ? lengths.contiguous() : lengths;
  const Tensor from = as_padded_matrix(lengths.defined() && on_gpu ? without_padding(dy, lengths) : dy);
  const int64_t chunks = on_gpu ? gpu_row_chunks(from.dim(0)) : 1;
  const Tensor partial = empty({chunks, dy.dim(-1)}, compute_dtype(dy.dtype()), dy.device_ptr());
  const Cost cost{static_cast<double>(dy.elements()), static_cast<double>(dy.bytes()), static_cast<double>(partial.bytes())};
  run_kernel("sum_rows", {from, per_sample}, cost, [&](auto& context) { kernels::sum_rows(context, from, per_sample, partial); });
  return chunks == 1 ? partial.reshape({dy.dim(-1)}) : sum(partial, {0});
}

}  // namespace sluice
