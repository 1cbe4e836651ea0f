#include "core/ops/elementwise.h"

#include <cmath>
#include <utility>

#include "core/dispatch.h"
#include "core/integer_range.h"
#include "core/ops/elementwise_operands.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/gradient_sum.h"
#include "core/ops/overlap.h"

namespace sluice {

namespace {

const char* name_of(Unary rule) {
  switch (rule) {
#define SLUICE_CASE(Rule, name) \
  case Unary::Rule:             \
    return #name;
    SLUICE_UNARY_OPS(SLUICE_CASE)
#undef SLUICE_CASE
  }
  return "unary";
}

const char* name_of(Binary rule) {
  switch (rule) {
#define SLUICE_CASE(Rule, name) \
  case Binary::Rule:            \
    return #name;
    SLUICE_BINARY_OPS(SLUICE_CASE) SLUICE_BINARY_SLOPES(SLUICE_CASE)
#undef SLUICE_CASE
  }
  return "binary";
}

Tensor with_numbers(const char* op, WithNumbers rule, const Tensor& x, double first, double second = 0) {
  require_floating(op, x);
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  run_kernel(op, {from}, pass_cost(static_cast<double>(x.bytes()), y),
             [&](auto& context) { kernels::numbers(context, rule, from, first, second, y); });
  return y;
}

/// What run(context, x, dy, sum, dx) makes of row-major tensors.
template <class Run>
Tensor gradient_of(const char* op, const Tensor& x, const Tensor& dy, const Tensor& sum, const Run& run) {
  require(x.shape() == dy.shape(), op, ": needs a gradient of shape ", x.shape(), ", got ", dy.shape());
  require_same_dtype(op, x, dy);
  const Tensor from = x.contiguous(), gradient = dy.contiguous(), added = row_major_sum(op, sum, x.shape(), x.dtype());
  Tensor dx = empty_like(x);
  Cost cost = pass_cost(static_cast<double>(x.bytes() + dy.bytes()), dx);
  cost += sum_cost(added);
  run_kernel(op, {from, gradient, added}, cost, [&](auto& context) { run(context, from, gradient, added, dx); });
  return dx;
}

Tensor with_number_backward(const char* op, WithNumbers rule, const Tensor& x, double number, const Tensor& dy, const Tensor& sum) {
  return gradient_of(op, x, dy, sum, [=](auto& context, const Tensor& from, const auto&... tensors) {
    kernels::numbers_backward(context, rule, from, number, tensors...);
  });
}

}  // namespace

void require_holds(const char* op, DType dtype, double number) {
  if (is_floating(dtype)) return;
  const auto [least, largest] = range_of_numbers(dtype);
  require(number == std::floor(number) && number >= least && number <= largest, op, ": needs numbers that ", name_of(dtype), " holds, got ",
          number, number == std::floor(number) ? cure_of_range(dtype) : "; take f64");
}

Tensor number_like(const char* op, const Tensor& x, double number) {
  require_holds(op, x.dtype(), number);
  return full({}, number, x.dtype(), x.device_ptr());
}

Tensor unary(Unary rule, const Tensor& x) {
  require_floating(name_of(rule), x);
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  run_kernel("unary", {from}, pass_cost(static_cast<double>(x.bytes()), y), [&](auto& context) { kernels::unary(context, rule, from, y); });
  return y;
}

Tensor unary_backward(Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum) {
  return gradient_of("unary_backward", x, dy, sum,
                     [rule](auto& context, const auto&... tensors) { kernels::unary_backward(context, rule, tensors...); });
}

Tensor binary(Binary rule, const Tensor& a, const Tensor& b) {
  const char* op = name_of(rule);
  require_same_dtype(op, a, b);
  if (!is_for_integers(rule)) require_floating(op, a);
  Tensor y = empty(broadcast_shape(op, a.shape(), b.shape()), a.dtype(), a.device_ptr());
  const Cost cost = pass_cost(static_cast<double>(a.bytes() + b.bytes()), y);
  run_kernel(op, {a, b}, cost, [&](auto& context) { kernels::binary(context, rule, a, b, y); });
  return y;
}

// Integers have no rules with numbers: the number is an operand there.
Tensor add(const Tensor& x, double number) {
  return is_floating(x.dtype()) ? with_numbers("add", WithNumbers::Affine, x, 1, number) : add(x, number_like("add", x, number));
}
Tensor sub(const Tensor& x, double number) {
  return is_floating(x.dtype()) ? with_numbers("sub", WithNumbers::Affine, x, 1, -number) : sub(x, number_like("sub", x, number));
}
Tensor sub(double number, const Tensor& x) {
  return is_floating(x.dtype()) ? with_numbers("sub", WithNumbers::Affine, x, -1, number) : sub(number_like("sub", x, number), x);
}
Tensor mul(const Tensor& x, double number) { return is_floating(x.dtype()) ? scale(x, number) : mul(x, number_like("mul", x, number)); }
Tensor div(const Tensor& x, double number) { return with_numbers("div", WithNumbers::DivideBy, x, number); }
Tensor div(double number, const Tensor& x) { return with_numbers("div", WithNumbers::DivideInto, x, number); }

Tensor affine(const Tensor& x, double factor, double offset) { return with_numbers("affine", WithNumbers::Affine, x, factor, offset); }

// Adding -0 changes no number, not even -0.
Tensor scale(const Tensor& x, double factor) { return with_numbers("scale", WithNumbers::Affine, x, factor, -0.0); }

Tensor pow(const Tensor& x, double exponent) { return exponent == 2 ? square(x) : with_numbers("pow", WithNumbers::Power, x, exponent, 1); }

Tensor pow_backward(const Tensor& x, double exponent, const Tensor& dy) {
  const double lower = exponent == 0 ? 0 : exponent - 1;  // 0 x^-1 would be NaN for x = 0
  return mul(dy, with_numbers("pow_backward", WithNumbers::Power, x, lower, exponent));
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

Tensor leaky_relu(const Tensor& x, double slope) { return with_numbers("leaky_relu", WithNumbers::LeakyRelu, x, slope); }
Tensor elu(const Tensor& x, double alpha) { return with_numbers("elu", WithNumbers::Elu, x, alpha); }
Tensor leaky_relu_backward(const Tensor& x, double slope, const Tensor& dy, const Tensor& sum) {
  return with_number_backward("leaky_relu_backward", WithNumbers::LeakyRelu, x, slope, dy, sum);
}
Tensor elu_backward(const Tensor& x, double alpha, const Tensor& dy, const Tensor& sum) {
  return with_number_backward("elu_backward", WithNumbers::Elu, x, alpha, dy, sum);
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
  refuse_overlap("add_into", x, target);
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
