#include "core/ops/linear.h"

#include "core/dispatch.h"
#include "core/ops/matmul.h"

namespace sluice {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1), "linear: needs x [..., in] and weight [out, in], got ",
          x.shape(), " and ", weight.shape());
  require(!bias.defined() || (bias.rank() == 1 && bias.dim(0) == weight.dim(0) && bias.dtype() == x.dtype()), "linear: needs a bias of ",
          name_of(x.dtype()), " [", weight.dim(0), "], got ", bias);
  Tensor y = empty(x.shape().with(-1, weight.dim(0)), x.dtype(), x.device_ptr());
  const int64_t rows = x.shape().elements_before(-1);
  const Tensor matrix = x.rank() == 2 ? x : x.contiguous().reshape({rows, x.dim(-1)});
  matmul_into(matrix, weight, y.reshape({rows, weight.dim(0)}), false, true, 0, bias.defined() ? bias.contiguous() : bias);
  return y;
}

Tensor sum_rows(const Tensor& dy) {
  require(dy.rank() >= 1, "sum_rows: needs at least one axis, got ", dy.shape());
  const Tensor from = dy.contiguous();
  Tensor sum = empty({dy.dim(-1)}, dy.dtype(), dy.device_ptr());
  const Cost cost{static_cast<double>(dy.elements()), static_cast<double>(dy.bytes()), static_cast<double>(sum.bytes())};
  run_kernel(sum.device(), cost, [&](auto& context) { kernels::sum_rows(context, from, sum); });
  return sum;
}

}  // namespace sluice
