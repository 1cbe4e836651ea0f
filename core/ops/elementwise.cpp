#include "core/ops/elementwise.h"

#include <utility>

#include "core/dispatch.h"

namespace sluice {

namespace {

void require_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), op, ": needs operands of one dtype, got ", a, " and ", b, "; cast one of them");
}

void require_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
}

/// One operation an element; compulsory traffic.
Cost pass_cost(double bytes_read, const Tensor& y) {
  return {static_cast<double>(y.elements()), bytes_read, static_cast<double>(y.bytes())};
}

Tensor binary(const char* op, Binary rule, const Tensor& a, const Tensor& b) {
  require_same_dtype(op, a, b);
  require_floating(op, a);
  Tensor y = empty(broadcast_shape(op, a.shape(), b.shape()), a.dtype(), a.device_ptr());
  const Cost cost = pass_cost(static_cast<double>(a.bytes() + b.bytes()), y);
  run_kernel(op, {a, b}, cost, [&](auto& context) { kernels::binary(context, rule, a, b, y); });
  return y;
}

}  // namespace

Tensor unary(Unary rule, const Tensor& x) {
  require_floating("unary", x);
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  run_kernel("unary", {from}, pass_cost(static_cast<double>(x.bytes()), y), [&](auto& context) { kernels::unary(context, rule, from, y); });
  return y;
}

Tensor unary_backward(Unary rule, const Tensor& x, const Tensor& dy) {
  require(x.shape() == dy.shape(), "unary_backward: needs a gradient of shape ", x.shape(), ", got ", dy.shape());
  require_same_dtype("unary_backward", x, dy);
  const Tensor from = x.contiguous(), gradient = dy.contiguous();
  Tensor dx = empty_like(x);
  const Cost cost = pass_cost(static_cast<double>(x.bytes() + dy.bytes()), dx);
  run_kernel("unary_backward", {from, gradient}, cost, [&](auto& context) { kernels::unary_backward(context, rule, from, gradient, dx); });
  return dx;
}

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", Binary::Add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", Binary::Sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", Binary::Mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", Binary::Div, a, b); }

Tensor scale(const Tensor& x, double factor) {
  require_floating("scale", x);
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  run_kernel("scale", {from}, pass_cost(static_cast<double>(x.bytes()), y),
             [&](auto& context) { kernels::scale(context, from, factor, y); });
  return y;
}

Tensor clamp(const Tensor& x, double low, double high) {
  require_floating("clamp", x);
  require(low < high, "clamp: needs low < high, got ", low, " and ", high);
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  run_kernel("clamp", {from}, pass_cost(static_cast<double>(x.bytes()), y),
             [&](auto& context) { kernels::clamp(context, from, low, high, y); });
  return y;
}

Tensor clamp_backward(const Tensor& y, const Tensor& dy, double low, double high) {
  require(y.shape() == dy.shape(), "clamp_backward: needs a gradient of shape ", y.shape(), ", got ", dy.shape());
  require_same_dtype("clamp_backward", y, dy);
  const Tensor values = y.contiguous(), gradient = dy.contiguous();
  Tensor dx = empty_like(y);
  run_kernel("clamp_backward", {values, gradient}, pass_cost(static_cast<double>(y.bytes() + dy.bytes()), dx),
             [&](auto& context) { kernels::clamp_backward(context, values, gradient, low, high, dx); });
  return dx;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, double factor) {
  require_floating("broadcast_to", x);
  require(broadcast_shape("broadcast_to", x.shape(), shape) == shape, "broadcast_to: ", x.shape(), " does not broadcast to ", shape);
  const Tensor constant = full({}, factor, x.dtype(), x.device_ptr());
  Tensor y = empty(shape, x.dtype(), x.device_ptr());
  run_kernel("broadcast_to", {x}, pass_cost(static_cast<double>(x.bytes()), y),
             [&](auto& context) { kernels::binary(context, Binary::Mul, x, constant, y); });
  return y;
}

void add_into(const Tensor& target, const Tensor& x) {
  require(target.shape() == x.shape(), "add_into: needs equal shapes, got ", target.shape(), " += ", x.shape());
  require(target.is_contiguous(), "add_into: needs a contiguous target, got a strided view of ", target.shape());
  require_same_dtype("add_into", target, x);
  require_floating("add_into", target);
  const Cost cost = pass_cost(static_cast<double>(target.bytes() + x.bytes()), target);
  run_kernel("add_into", {target, x}, cost, [&](auto& context) { kernels::binary(context, Binary::Add, target, x, target); });
}

void add_part(Tensor& sum, Tensor part) {
  const auto reusable = [](const Tensor& x) { return x.is_exclusive() && x.is_contiguous(); };
  if (!sum.defined()) {
    sum = std::move(part);
  } else if (reusable(part)) {
    add_into(part, sum);
    sum = std::move(part);
  } else if (reusable(sum)) {
    add_into(sum, part);
  } else {
    sum = add(sum, part);
  }
}

}  // namespace sluice
