#include "autograd/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "core/random.h"

namespace sluice {

namespace {

using Function = std::function<Var(const std::vector<Var>&)>;

Tensor check_weights(const Tensor& y) { return randn(y.shape(), random_key(7, "projection"), DType::f64, y.device_ptr()); }

double weighted_sum(const Function& f, const std::vector<Tensor>& inputs) {
  const Tensor y = f({inputs.begin(), inputs.end()}).value();
  const std::vector<double> values = y.to_vector(), weights = check_weights(y).to_vector();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  return sum;
}

std::vector<double> central_differences(const Function& f, const std::vector<Tensor>& inputs, size_t input, double step) {
  std::vector<double> differences, elements = inputs[input].to_vector();
  std::vector<Tensor> moved = inputs;
  const auto at = [&](size_t i, double value) {
    std::vector<double> others = elements;
    others[i] = value;
    moved[input] = tensor_of(others, inputs[input].shape(), inputs[input].dtype(), inputs[input].device_ptr());
    return weighted_sum(f, moved);
  };
  for (size_t i = 0; i < elements.size(); ++i) differences.push_back((at(i, elements[i] + step) - at(i, elements[i] - step)) / (2 * step));
  return differences;
}

std::vector<Var> check_leaves(const std::vector<Tensor>& inputs) {
  std::vector<Var> leaves;
  for (const Tensor& x : inputs) {
    require(!is_floating(x.dtype()) || x.dtype() == DType::f64, "gradient_check: needs floating inputs in f64, got ", x,
            "; cast() them, or make them with DType::f64");
    leaves.push_back(is_floating(x.dtype()) ? Var::input(x) : Var(x));
  }
  return leaves;
}

void compare(size_t input, const Tensor& gradient, const std::vector<double>& differences, double tolerance) {
  const std::vector<double> found = gradient.defined() ? gradient.to_vector() : std::vector<double>(differences.size(), 0);
  double scale = 1;
  for (const double value : differences)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < differences.size(); ++i) {
    const bool is_same = found[i] == differences[i] || (std::isnan(found[i]) && std::isnan(differences[i]));
    require(is_same || std::abs(found[i] - differences[i]) <= tolerance * scale, "gradient_check: needs the gradient of input ", input,
            ", element ", i, ", to be ", differences[i], " as central differences have it, got ", found[i],
            gradient.defined() ? "" : ", as no gradient reaches the input",
            "; mend the backward function, or check away from where the function has a kink");
  }
}

}  // namespace

void gradient_check(const Function& f, const std::vector<Tensor>& inputs, const GradientCheck& options) {
  const std::vector<Var> leaves = check_leaves(inputs);
  const Var y = f(leaves);
  require(y.node() != nullptr, "gradient_check: needs a result that depends on an input, got a constant; compute it with ops on Vars");
  require(y.dtype() == DType::f64, "gradient_check: needs a result in f64, got ", y, "; keep the dtype of the inputs");
  Backward backward(y, check_weights(y.value()));
  backward.run();
  for (size_t input = 0; input < inputs.size(); ++input)
    if (leaves[input].node())
      compare(input, backward.take(leaves[input]), central_differences(f, inputs, input, options.step), options.tolerance);
}

}  // namespace sluice
