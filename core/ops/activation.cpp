#include "core/ops/activation.h"

#include "core/dispatch.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/reduction.h"
#include "core/ops/row_chunks.h"

namespace sluice {

namespace {

double bytes_of(const Tensor& x) { return x.defined() ? static_cast<double>(x.bytes()) : 0; }

void check_rule(Unary rule) {
  on_bias_activation(rule, []<class Rule>() {});  // refuses others
}

void check_bias(const Tensor& x, const Tensor& bias) {
  require(is_floating(x.dtype()) && x.dtype() == bias.dtype(), "bias_activation: needs x and bias of one floating dtype, got ", x, " and ",
          bias);
  require(x.rank() >= 1 && bias.shape() == Shape{x.dim(-1)}, "bias_activation: needs x [..., N] and bias [N], got ", x.shape(), " and ",
          bias.shape());
}

/// Chunks of rows, each of which gives one row of partial sums for dbias.
int64_t bias_chunks(const Device& device, int64_t rows, int64_t columns) {
  if (device.backend() == DeviceKind::cuda) return gpu_row_chunks(rows);
  const int64_t items = ReductionView{1, rows, columns}.chunk_items();
  return (rows + items - 1) / items;
}

void check_gate(const Tensor& a, const Tensor& b) {
  require(is_floating(a.dtype()) && a.dtype() == b.dtype() && a.shape() == b.shape(),
          "mul_silu: needs operands of one shape and floating dtype, got ", a, " and ", b);
}

}  // namespace

Tensor bias_activation(Unary rule, const Tensor& x, const Tensor& bias) {
  check_rule(rule);
  check_bias(x, bias);
  const Tensor from = x.contiguous(), offset = bias.contiguous();
  Tensor y = empty_like(x);
  const Cost cost{2.0 * static_cast<double>(x.elements()), bytes_of(x) + bytes_of(bias), bytes_of(y)};
  run_kernel("bias_activation", {from, offset}, cost, [&](auto& context) { kernels::bias_activation(context, rule, from, offset, y); });
  return y;
}

std::pair<Tensor, Tensor> bias_activation_backward(Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, bool needs_x,
                                                   bool needs_bias) {
  check_rule(rule);
  if (bias.defined()) check_bias(x, bias);
  require(is_floating(x.dtype()) && x.rank() >= 1 && dy.shape() == x.shape() && dy.dtype() == x.dtype(),
          "bias_activation_backward: needs x [..., N] of a floating dtype and a gradient like it, got ", x, " and ", dy);
  const Tensor from = x.contiguous(), offset = bias.defined() ? bias.contiguous() : bias, gradient = dy.contiguous();
  const int64_t columns = x.dim(-1), chunks = bias_chunks(x.device(), x.shape().elements_before(-1), columns);
  Tensor dx, partial;
  if (needs_x) dx = empty_like(x);
  if (needs_bias) partial = empty({chunks, columns}, compute_dtype(x.dtype()), x.device_ptr());
  const Cost cost{4.0 * static_cast<double>(x.elements()), bytes_of(x) + bytes_of(bias) + bytes_of(dy), bytes_of(dx)};
  run_kernel("bias_activation_backward", {from, offset, gradient}, cost,
             [&](auto& context) { kernels::bias_activation_backward(context, rule, from, offset, gradient, dx, partial); });
  return {dx, needs_bias ? sum(partial, {0}) : Tensor()};
}

Tensor mul_silu(const Tensor& a, const Tensor& b) {
  check_gate(a, b);
  const Tensor gate = a.contiguous(), value = b.contiguous();
  Tensor y = empty_like(a);
  run_kernel("mul_silu", {gate, value}, {2.0 * static_cast<double>(a.elements()), bytes_of(a) + bytes_of(b), bytes_of(y)},
             [&](auto& context) { kernels::mul_silu(context, gate, value, y); });
  return y;
}

std::pair<Tensor, Tensor> mul_silu_backward(const Tensor& a, const Tensor& b, const Tensor& dy, bool needs_a, bool needs_b) {
  check_gate(a, b);
  check_gate(a, dy);
  const Tensor gate = a.contiguous(), value = b.contiguous(), gradient = dy.contiguous();
  Tensor da, db;
  if (needs_a) da = empty_like(a);
  if (needs_b) db = empty_like(b);
  run_kernel("mul_silu_backward", {gate, value, gradient},
             {4.0 * static_cast<double>(a.elements()), bytes_of(a) + bytes_of(b) + bytes_of(dy), bytes_of(da) + bytes_of(db)},
             [&](auto& context) { kernels::mul_silu_backward(context, gate, value, gradient, da, db); });
  return {da, db};
}

}  // namespace sluice
