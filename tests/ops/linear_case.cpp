#include "autograd/ops/linear.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Var run_linear(const std::vector<Var>& x) { return x.size() == 3 ? linear(x[0], x[1], x[2]) : linear(x[0], x[1]); }

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
  check("view_of_rows", {transposed(randn({3, 2, 4}), 0, 1), randn({3, 4}), randn({3})});
  check("view_of_columns", {sliced(randn({5, 9}), 1, 2, 6), sliced(randn({3, 6}), 1, 1, 5), sliced(randn({5}), 0, 1, 4)});
  add({.name = "width", .inputs = {randn({5, 7}), randn({3, 6})}, .run = run_linear, .throws = "got [5, 7] and [3, 6]"});
  add({.name = "bias_extent",
       .inputs = {randn({5, 7}), randn({3, 7}), randn({4})},
       .run = run_linear,
       .throws = "needs a bias of f32 [3]"});
  const auto gpt = [&](const char* name, int64_t inputs, int64_t outputs) {
    add({.name = name, .inputs = {randn({8, 256, inputs}), randn({outputs, inputs}), randn({outputs})}, .run = run_linear, .bench = true});
  };
  gpt("gpt_qkv", 384, 1152);
  gpt("gpt_ffn_in", 384, 1536);
  gpt("gpt_ffn_out", 1536, 384);
}
