#pragma once
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "tests/ops/op_case.h"

namespace sluice::testing {

/// f of the elements of two inputs, by plain loops over the broadcast shape.
template <class F>
auto broadcast_expect(F f) {
  return [f](const std::vector<Tensor>& x) {
    const auto as_numbers = [](const Tensor& tensor, const Shape& shape) {
      return broadcast_to(is_floating(tensor.dtype()) ? tensor : cast(tensor, DType::f64), shape).to_vector();
    };
    const Shape shape = broadcast_shape("test", x[0].shape(), x[1].shape());
    const Values b = as_numbers(x[1], shape);
    Values y = as_numbers(x[0], shape);
    for (size_t i = 0; i < y.size(); ++i) y[i] = f(y[i], b[i]);
    return y;
  };
}

/// f of every element of the first input.
template <class F>
auto each_expect(F f) {
  return [f](const std::vector<Tensor>& x) {
    Values y = x[0].to_vector();
    for (double& value : y) value = f(value);
    return y;
  };
}

}  // namespace sluice::testing
