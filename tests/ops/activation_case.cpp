#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// The fused op must be what its parts are, which have references of their own.
void bias_cases(const std::function<void(OpCase)>& add, Unary rule) {
  const auto run = [rule](const auto& x) { return bias_activation(rule, x[0], x[1]); };
  const auto expect = [rule](const auto& x) { return unary(rule, sluice::add(x[0], x[1])).to_vector(); };
  add({.name = "odd", .inputs = {randn({2, 3, 17}), randn({17})}, .run = run, .expect = expect});
  add({.name = "many_rows", .inputs = {randn({150, 3}), randn({3})}, .run = run, .expect = expect, .tolerance_scale = 4});
  add({.name = "vector", .inputs = {randn({5}), randn({5})}, .run = run, .expect = expect});
  add({.name = "no_rows", .inputs = {randn({0, 4}), randn({4})}, .run = run, .expect = expect});
  add({.name = "no_columns", .inputs = {randn({3, 0}), randn({0})}, .run = run, .expect = expect});
  add({.name = "view", .inputs = {transposed(randn({6, 3}), 0, 1), randn({6})}, .run = run, .expect = expect});
  add({.name = "misaligned", .inputs = {misaligned({3, 16}), randn({16})}, .run = run, .expect = expect});
  add({.name = "misaligned_bias", .inputs = {randn({3, 16}), misaligned({16})}, .run = run, .expect = expect});
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({2})}, .run = run, .throws = "needs x [..., N] and bias [N]"});
  add({.name = "gpt", .inputs = {randn({2048, 1536}), randn({1536})}, .run = run, .bench = true});
}

}  // namespace

OP_CASES(bias_gelu) { bias_cases(add, Unary::Gelu); }
OP_CASES(bias_gelu_tanh) { bias_cases(add, Unary::GeluTanh); }
OP_CASES(bias_relu) { bias_cases(add, Unary::Relu); }
OP_CASES(bias_silu) { bias_cases(add, Unary::Silu); }

OP_CASES(mul_silu) {
  const auto run = [](const auto& x) { return mul_silu(x[0], x[1]); };
  const auto expect = [](const auto& x) { return mul(silu(x[0]), x[1]).to_vector(); };
  add({.name = "odd", .inputs = {randn({3, 19}), randn({3, 19})}, .run = run, .expect = expect});
  add({.name = "nothing", .inputs = {randn({0, 2}), randn({0, 2})}, .run = run, .expect = expect});
  add({.name = "halves", .inputs = {sliced(randn({3, 10}), 1, 0, 5), sliced(randn({3, 10}), 1, 5, 10)}, .run = run, .expect = expect});
  add({.name = "misaligned", .inputs = {randn({3, 16}), misaligned({3, 16})}, .run = run, .expect = expect});
  add({.name = "mismatch", .inputs = {randn({3}), randn({4})}, .run = run, .throws = "needs operands of one shape"});
  add({.name = "gpt", .inputs = {randn({2048, 1024}), randn({2048, 1024})}, .run = run, .bench = true});
}
