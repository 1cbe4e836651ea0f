// Backward ops that add their gradient to a sum: the bits of an addition afterwards.
#include "core/ops/elementwise.h"
#include "core/ops/factorized_reduction.h"
#include "core/ops/pooling.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values no_difference(const std::vector<Tensor>& x) { return Values(static_cast<size_t>(x[0].elements())); }

/// The difference, of any bit, between gradient(sum) and a sum that gradient({}) is added to.
template <class Gradient>
Var difference(const Gradient& gradient, const Tensor& sum) {
  const Tensor at_once = gradient(sum);
  return Var(scale(sub(at_once, add(gradient({}), sum)), 1e30));
}

/// Of {x, dy, sum}.
Var unary_difference(Unary rule, const std::vector<Var>& inputs) {
  return difference([&](const Tensor& to) { return unary_backward(rule, inputs[0].value(), inputs[1].value(), to); }, inputs[2].value());
}

/// Of {x, dy, sum}, for a backward op with a number.
template <class Backward>
Var number_difference(const Backward& backward, const std::vector<Var>& inputs) {
  return difference([&](const Tensor& to) { return backward(inputs[0].value(), 0.3, inputs[1].value(), to); }, inputs[2].value());
}

/// Of {x, sum}.
Var max_pool_difference(const Window& window, const std::vector<Var>& inputs) {
  const Tensor& x = inputs[0].value();
  const auto [y, place] = max_pool2d(x, window, true);
  return difference([&, &dy = y, &at = place](const Tensor& to) { return max_pool2d_backward(dy, at, x.shape(), window, to); },
                    inputs[1].value());
}
Var average_pool_difference(const Window& window, const std::vector<Var>& inputs) {
  const Tensor& x = inputs[0].value();
  const Tensor dy = average_pool2d(x, window);
  return difference([&](const Tensor& to) { return average_pool2d_backward(dy, x.shape(), window, to); }, inputs[1].value());
}

}  // namespace

OP_CASES(unary_backward) {
  const auto with = [&](const std::string& name, Unary rule, std::vector<InputSpec> inputs) {
    add({.name = name,
         .inputs = std::move(inputs),
         .run = [rule](const auto& x) { return unary_difference(rule, x); },
         .expect = no_difference,
         .gradient = false});
  };
#define SLUICE_CASE(Rule, name) with(#name "_sum", Unary::Rule, {uniform({3, 17, 33}, 0.1, 0.9), randn({3, 17, 33}), randn({3, 17, 33})});
  SLUICE_UNARY_OPS(SLUICE_CASE)
#undef SLUICE_CASE
  with("sum_of_packs", Unary::Silu, {randn({64, 128}), randn({64, 128}), randn({64, 128})});
  with("sum_view", Unary::Relu, {randn({3, 16}), randn({3, 16}), transposed(randn({16, 3}), 0, 1)});
  with("sum_misaligned", Unary::Relu, {randn({3, 16}), randn({3, 16}), misaligned({3, 16})});
  with("sum_of_no_elements", Unary::Relu, {randn({0, 5}), randn({0, 5}), randn({0, 5})});
  add({.name = "short_sum",
       .inputs = {randn({2, 4}), randn({2, 4}), randn({1, 4})},
       .run = [](const auto& x) { return unary_difference(Unary::Relu, x); },
       .throws = "unary_backward: needs a sum like the gradient"});
}

OP_CASES(number_backward) {
  const std::vector<InputSpec> inputs{randn({3, 17, 33}), randn({3, 17, 33}), randn({3, 17, 33})};
  add({.name = "leaky_relu_sum",
       .inputs = inputs,
       .run = [](const auto& x) { return number_difference(leaky_relu_backward, x); },
       .expect = no_difference,
       .gradient = false});
  add({.name = "elu_sum",
       .inputs = inputs,
       .run = [](const auto& x) { return number_difference(elu_backward, x); },
       .expect = no_difference,
       .gradient = false});
}

OP_CASES(pool2d_backward) {
  const auto with = [&](const std::string& name, const Window& window, const Shape& shape, const InputSpec& sum) {
    const std::vector<InputSpec> inputs{randn(shape), sum};
    add({.name = "max_" + name,
         .inputs = inputs,
         .run = [window](const auto& x) { return max_pool_difference(window, x); },
         .expect = no_difference,
         .gradient = false});
    add({.name = "average_" + name,
         .inputs = inputs,
         .run = [window](const auto& x) { return average_pool_difference(window, x); },
         .expect = no_difference,
         .gradient = false});
  };
  const Window overlapping{.size_h = 3, .size_w = 3}, strided{.size_h = 3, .size_w = 2, .stride_h = 2, .stride_w = 2};
  with("sum", overlapping, {2, 5, 7, 3}, randn({2, 5, 7, 3}));
  with("sum_of_packs", overlapping, {2, 4, 4, 48}, randn({2, 4, 4, 48}));
  with("sum_of_strides", strided, {2, 5, 7, 17}, randn({2, 5, 7, 17}));
  with("sum_view", strided, {2, 5, 4, 8}, transposed(randn({2, 4, 5, 8}), 1, 2));
  with("sum_misaligned", overlapping, {1, 3, 3, 16}, misaligned({1, 3, 3, 16}));
  add({.name = "factorized_reduction_sum",
       .inputs = {randn({2, 5, 4, 6}), randn({3, 1, 1, 6}), randn({3, 1, 1, 6}), randn({2, 3, 2, 6})},
       .run =
           [](const auto& x) {
             return difference(
                 [&](const Tensor& to) {
                   return factorized_reduction_input_gradient(x[3].value(), x[1].value(), x[2].value(), x[0].shape(), to);
                 },
                 x[0].value());
           },
       .expect = no_difference,
       .gradient = false});
  for (const bool is_max : {true, false})
    add({.name = is_max ? "max_short_sum" : "average_short_sum",
         .inputs = {randn({1, 3, 3, 4}), randn({1, 3, 3, 2})},
         .run = [=](const auto& x) { return is_max ? max_pool_difference(overlapping, x) : average_pool_difference(overlapping, x); },
         .throws = "needs a sum like the gradient"});
}
