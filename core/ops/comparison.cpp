#include "core/ops/comparison.h"

#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"

namespace sluice {

namespace {

void require_condition(const char* op, const Tensor& x) {
  require(x.dtype() == DType::u8, op, ": needs conditions of u8, got ", x, "; a comparison makes one, such as x != 0");
}

Tensor compare(const char* op, Comparison rule, const Tensor& a, const Tensor& b) {
  require_same_dtype(op, a, b);
  Tensor y = empty(broadcast_shape(op, a.shape(), b.shape()), DType::u8, a.device_ptr());
  const Cost cost = pass_cost(static_cast<double>(a.bytes() + b.bytes()), y);
  run_kernel(op, {a, b}, cost, [&](auto& context) { kernels::compare(context, rule, a, b, y); });
  return y;
}

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) { return compare("less", Comparison::Less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare("less_equal", Comparison::LessEqual, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare("greater", Comparison::Less, b, a); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compare("greater_equal", Comparison::LessEqual, b, a); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", Comparison::Equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare("not_equal", Comparison::NotEqual, a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  require_condition("logical_and", a);
  return compare("logical_and", Comparison::And, a, b);
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  require_condition("logical_or", a);
  return compare("logical_or", Comparison::Or, a, b);
}

Tensor logical_not(const Tensor& x) {
  require_condition("logical_not", x);
  return equal(x, 0);
}

// A sum of numbers that are not negative is 0 only when all of them are.
Tensor any(const Tensor& x, std::vector<int> axes, bool keep) {
  require_condition("any", x);
  return greater(sum(cast(x, DType::f32), std::move(axes), keep), 0);
}

Tensor all(const Tensor& x, std::vector<int> axes, bool keep) {
  require_condition("all", x);
  return logical_not(any(logical_not(x), std::move(axes), keep));
}

Tensor isnan(const Tensor& x) {
  require_floating("isnan", x);
  return not_equal(x, x);
}

// The difference of two infinities is NaN.
Tensor isfinite(const Tensor& x) {
  require_floating("isfinite", x);
  return equal(sub(x, x), 0);
}

}  // namespace sluice
