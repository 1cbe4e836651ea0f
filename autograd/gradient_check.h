#pragma once
#include <functional>
#include <vector>

#include "autograd/var.h"

namespace sluice {

struct GradientCheck {
  double step = 1e-6;       ///< of the central differences
  double tolerance = 2e-6;  ///< relative to the largest difference of an input, at least to 1
};

/// Compares the gradients that a function records with central differences, of the sum of its result times fixed random weights, for each
/// element of each floating input:  (f(x + step) - f(x - step)) / (2 step).
///   gradient_check([](const auto& x) { return my_op(x[0], x[1]); }, {randn({2, 3}, 1, DType::f64), randn({3}, 2, DType::f64)});
/// Inputs of integers are constants. The function must give the same result each time.
/// Errors  UsageError naming input, element and both numbers where they differ; for floating inputs or a result other than f64, whose
///         differences are mostly rounding; for a result that depends on no input.
/// Cost    two calls of f an element.
void gradient_check(const std::function<Var(const std::vector<Var>&)>& f, const std::vector<Tensor>& inputs,
                    const GradientCheck& options = {});

}  // namespace sluice
