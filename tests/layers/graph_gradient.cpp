#include "tests/layers/graph_gradient.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/random.h"
#include "layers/tables.h"

namespace sluice::testing {

namespace {

constexpr double kStep = 1e-8;  // some ReLU of a network lies within a larger one
constexpr double kTolerance = 1e-4;

Tensor drawn(const Shape& shape, double mean, double deviation, const std::string& name, uint64_t seed) {
  const Tensor x = empty(shape, DType::f64);
  fill_normal(x, mean, deviation, random_key(seed, name));
  return x;
}

double loss_of(const layers::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& parameters) {
  return run_in_f64(graph, inputs, {parameters.begin(), parameters.end()})[static_cast<size_t>(graph.loss_node())].value().item();
}

}  // namespace

std::vector<Tensor> drawn_parameters(const layers::Graph& graph, uint64_t seed) {
  std::vector<Tensor> all;
  for (const auto& parameter : graph.parameters())
    all.push_back(drawn(parameter.spec.shape, parameter.name.ends_with("gamma") ? 1 : 0, 0.3, parameter.name, seed));
  return all;
}

std::vector<Var> run_in_f64(const layers::Graph& graph, const std::vector<Tensor>& inputs, std::vector<Var> parameters) {
  std::vector<Var> values(inputs.begin(), inputs.end());
  layers::Tables tables(default_device(), DType::f64);
  for (const auto& node : graph.nodes()) {
    layers::Call call;
    call.tables = tables.of(*node.module);
    for (int value : node.inputs) call.inputs.push_back(values[static_cast<size_t>(value)]);
    for (int parameter : node.parameters) call.parameters.push_back(parameters[static_cast<size_t>(parameter)]);
    call.random.key = random_key(1, node.name);
    call.loss_scale = 0.25;
    values.push_back(node.module->forward(call));
  }
  return {values.begin() + static_cast<std::ptrdiff_t>(inputs.size()), values.end()};
}

void expect_gradients_like_differences(const layers::Graph& graph, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> parameters = drawn_parameters(graph, 1);
  std::vector<Var> leaves;
  for (const Tensor& parameter : parameters) leaves.push_back(Var::parameter(parameter));
  const Var loss = run_in_f64(graph, inputs, leaves)[static_cast<size_t>(graph.loss_node())];
  const std::vector<Tensor> found = gradients(loss, full({}, 1, DType::f64), leaves);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = graph.parameters()[i].name;
    const Tensor direction = drawn(parameters[i].shape(), 0, 1, name, 2);
    const auto moved = [&](double step) {
      std::vector<Tensor> others = parameters;
      others[i] = add(parameters[i], scale(direction, step));
      return loss_of(graph, inputs, others);
    };
    const double slope = sum(mul(found[i], direction)).item(), difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    EXPECT_NEAR(slope, difference, kTolerance * std::max(1.0, std::abs(difference))) << name;
  }
}

}  // namespace sluice::testing
