#include "autograd/ops/linear.h"
#include "core/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Var run_linear(const std::vector<Var>& x) { return x.size() == 3 ? linear(x[0], x[1], x[2]) : linear(x[0], x[1]); }

/// The last input has the lengths of the samples.
Var run_without_padding(const std::vector<Var>& x) { return linear(x[0], x[1], x.size() == 4 ? x[2] : Var(), x.back().value()); }

Values reference(const std::vector<Tensor>& x) {
  const Values in = x[0].to_vector(), weight = x[1].to_vector();
  const int64_t width = x[1].dim(1), outputs = x[1].dim(0), rows = x[0].shape().elements_before(-1);
  Values y(rows * outputs);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < outputs; ++j) {
      double sum = x.size() == 3 ? x[2].to_vector()[j] : 0;
      for (int64_t i = 0; i < width; ++i) sum += in[row * width + i] * weight[j * width + i];
      y[row * outputs + j] = sum;
    }
  return y;
}

Values without_padding_reference(const std::vector<Tensor>& x) {
  Values y = reference({x.begin(), x.end() - 1});
  const Values lengths = x.back().to_vector();
  const int64_t tokens = x[0].dim(1), outputs = x[1].dim(0);
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i)
    if (i / outputs % tokens >= static_cast<int64_t>(lengths[i / outputs / tokens])) y[i] = 0;
  return y;
}

}  // namespace

OP_CASES(linear) {
  const auto check = [&](const char* name, std::vector<InputSpec> inputs) {
    add({.name = name, .inputs = std::move(inputs), .run = run_linear, .expect = reference});
  };
  check("plain", {randn({5, 7}), randn({3, 7})});
  check("bias", {randn({5, 7}), randn({3, 7}), randn({3})});
  check("above_tiny", {randn({3, 17, 33}), randn({41, 33}), randn({41})});
  check("vector", {randn({4}), randn({3, 4}), randn({3})});
  check("one_output", {randn({2, 3, 4}), randn({1, 4}), randn({1})});
  check("no_rows", {randn({0, 4}), randn({3, 4}), randn({3})});
  check("no_inputs", {randn({2, 5, 0}), randn({3, 0}), randn({3})});
  check("no_inputs_and_no_bias", {randn({5, 0}), randn({3, 0})});
  check("view_of_rows", {transposed(randn({3, 2, 4}), 0, 1), randn({3, 4}), randn({3})});
  check("view_of_columns", {sliced(randn({5, 9}), 1, 2, 6), sliced(randn({3, 6}), 1, 1, 5), sliced(randn({5}), 0, 1, 4)});
  add({.name = "width", .inputs = {randn({5, 7}), randn({3, 6})}, .run = run_linear, .throws = "got [5, 7] and [3, 6]"});
  add({.name = "bias_extent",
       .inputs = {randn({5, 7}), randn({3, 7}), randn({4})},
       .run = run_linear,
       .throws = "needs a bias of f32 [3]"});
  const auto check_padded = [&](const char* name, std::vector<InputSpec> inputs) {
    add({.name = name, .inputs = std::move(inputs), .run = run_without_padding, .expect = without_padding_reference});
  };
  check_padded("lengths", {randn({3, 5, 7}), randn({4, 7}), randn({4}), lengths({5, 0, 2})});
  check_padded("lengths_without_bias", {randn({2, 3, 9}), randn({5, 9}), lengths({1, 3})});
  check_padded("lengths_of_no_tokens", {randn({2, 0, 9}), randn({5, 9}), lengths({0, 0})});
  check_padded("lengths_of_no_samples", {randn({0, 3, 9}), randn({5, 9}), lengths({})});
  check_padded("lengths_without_inputs", {randn({3, 5, 0}), randn({4, 0}), randn({4}), lengths({5, 0, 2})});
  check_padded("lengths_of_a_view", {transposed(randn({5, 3, 7}), 0, 1), randn({4, 7}), randn({4}), lengths({4, 1, 5})});
  add({.name = "lengths_and_activation",  // whose bias belongs to the product
       .inputs = {randn({3, 5, 7}), randn({4, 7}), randn({4}), lengths({5, 0, 2})},
       .run = [](const std::vector<Var>& x) { return linear_activation(Unary::GeluTanh, x[0], x[1], x[2], x[3].value()); },
       .expect =
           [](const std::vector<Tensor>& x) {
             const Values y = without_padding_reference(x);
             return unary(Unary::GeluTanh, tensor_of(y, {static_cast<int64_t>(y.size())}, DType::f64)).to_vector();
           }});
  add({.name = "number_of_lengths",
       .inputs = {randn({3, 5, 7}), randn({4, 7}), lengths({5, 2})},
       .run = run_without_padding,
       .throws = "linear: needs lengths i32 [3]"});
  add({.name = "lengths_of_rows",
       .inputs = {randn({5, 7}), randn({4, 7}), lengths({5})},
       .run = run_without_padding,
       .throws = "needs x [B, T, in] beside lengths, got [5, 7]"});
  const auto gpt = [&](const char* name, int64_t inputs, int64_t outputs) {
    add({.name = name, .inputs = {randn({8, 256, inputs}), randn({outputs, inputs}), randn({outputs})}, .run = run_linear, .bench = true});
  };
  gpt("gpt_qkv", 384, 1152);
  gpt("gpt_ffn_in", 384, 1536);
  gpt("gpt_ffn_out", 1536, 384);
}
