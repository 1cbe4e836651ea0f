#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Var run_fused(const std::vector<Var>& x) { return linear_activation(Unary::GeluTanh, x[0], x[1], x[2]); }

Var run_parts(const std::vector<Var>& x) { return gelu_tanh(linear(x[0], x[1], x[2])); }

/// The fused op must be what its parts are, which have references of their own.
template <Unary kRule>
Values parts(const std::vector<Tensor>& x) {
  return unary(kRule, linear(x[0], x[1], x[2])).to_vector();
}

/// Numbers whose products and sums are exact in f32, and so have one sign in whatever order they are added up, `shift` past a quarter.
InputSpec quarters(const Shape& shape, double shift = 0) {
  return {[make = randn(shape).make, shift] {
    Tensor x = make();
    for (double* at = x.data<double>(); at != x.data<double>() + x.elements(); ++at) *at = std::round(4 * *at) / 4 + shift;
    return x;
  }};
}

}  // namespace

OP_CASES(linear_activation) {
  const auto check = [&](const char* name, std::vector<InputSpec> inputs) {
    add({.name = name, .inputs = std::move(inputs), .run = run_fused, .expect = parts<Unary::GeluTanh>});
  };
  check("plain", {randn({5, 7}), randn({3, 7}), randn({3})});
  check("whole_packs", {randn({5, 16}), randn({24, 16}), randn({24})});
  check("above_tiny", {randn({3, 17, 33}), randn({41, 33}), randn({41})});
  check("vector", {randn({4}), randn({3, 4}), randn({3})});
  check("one_output", {randn({2, 3, 4}), randn({1, 4}), randn({1})});
  check("no_rows", {randn({0, 4}), randn({3, 4}), randn({3})});
  check("many_rows", {randn({700, 4}), randn({24, 4}), randn({24})});
  check("view_of_rows", {transposed(randn({3, 2, 4}), 0, 1), randn({3, 4}), randn({3})});
  check("view_of_columns", {sliced(randn({5, 9}), 1, 2, 6), sliced(randn({3, 6}), 1, 1, 5), sliced(randn({5}), 0, 1, 4)});
  check("misaligned", {misaligned({3, 16}), misaligned({8, 16}), misaligned({8})});
  const std::vector<InputSpec> normal = {randn({3, 17, 33}), randn({40, 33}), randn({40})};
  const auto check_rule = [&]<Unary kRule>(const char* name, const std::vector<InputSpec>& inputs) {
    add({.name = name,
         .inputs = inputs,
         .run = [](const std::vector<Var>& x) { return linear_activation(kRule, x[0], x[1], x[2]); },
         .expect = parts<kRule>});
  };
  check_rule.operator()<Unary::Gelu>("gelu", normal);
  check_rule.operator()<Unary::Silu>("silu", normal);
  // Its gradient jumps at 0, to either side of which two devices may round one sum. No sum of these is 0.
  check_rule.operator()<Unary::Relu>("relu", {quarters({3, 17, 33}), quarters({40, 33}), quarters({40}, 1.0 / 32)});
  add({.name = "other_rule",
       .inputs = {randn({5, 7}), randn({3, 7}), randn({3})},
       .run = [](const std::vector<Var>& x) { return linear_activation(Unary::Exp, x[0], x[1], x[2]); },
       .throws = "needs gelu, gelu_tanh, relu or silu"});
  add({.name = "no_bias",
       .inputs = {randn({5, 7}), randn({3, 7})},
       .run = [](const std::vector<Var>& x) { return linear_activation(Unary::Relu, x[0], x[1], {}); },
       .throws = "needs a bias [3], got none"});
  add({.name = "width",
       .inputs = {randn({5, 7}), randn({3, 6}), randn({3})},
       .run = run_fused,
       .throws = "needs x [..., in] and weight [out, in] with in >= 1, got [5, 7] and [3, 6]"});
  add({.name = "bias_extent", .inputs = {randn({5, 7}), randn({3, 7}), randn({4})}, .run = run_fused, .throws = "needs a bias [3]"});
  add({.name = "no_inputs", .inputs = {randn({5, 0}), randn({3, 0}), randn({3})}, .run = run_fused, .throws = "with in >= 1"});
  const std::vector<InputSpec> gpt = {randn({8, 256, 384}), randn({1536, 384}), randn({1536})};
  add({.name = "gpt_ffn_in", .inputs = gpt, .run = run_fused, .bench = true});
  add({.name = "gpt_ffn_in_by_parts", .inputs = gpt, .run = run_parts, .bench = true});
}
