#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/ops/elementwise.h"
#include "core/ops/copy.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

double reference(Unary rule, double x) {
  switch (rule) {
    case Unary::Neg:
      return -x;
    case Unary::Exp:
      return std::exp(x);
    case Unary::Log:
      return std::log(x);
    case Unary::Sqrt:
      return std::sqrt(x);
    case Unary::Square:
      return x * x;
    case Unary::Reciprocal:
      return 1 / x;
    case Unary::Tanh:
      return std::tanh(x);
    case Unary::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::Relu:
      return x < 0 ? 0 : x;
    case Unary::Silu:
      return x / (1 + std::exp(-x));
    case Unary::Gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Unary::GeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Unary::Softplus:
      return x > 30 ? x : std::log1p(std::exp(x));
  }
  return NAN;
}

bool needs_positive(Unary rule) { return rule == Unary::Log || rule == Unary::Sqrt || rule == Unary::Reciprocal; }
bool saturates(Unary rule) { return rule >= Unary::Tanh; }

void unary_cases(const std::function<void(OpCase)>& add, Unary rule, const std::string& name) {
  const auto input = [&](const Shape& shape) { return needs_positive(rule) ? uniform(shape, 0.3, 3) : randn(shape, 2); };
  const auto run = [rule](const auto& x) { return unary(rule, x[0]); };
  const auto expect = [rule](const auto& x) {
    Values y = x[0].to_vector();
    for (double& value : y) value = reference(rule, value);
    return y;
  };
  add({.name = name + "_odd", .inputs = {input({5, 7})}, .run = run, .expect = expect});
  add({.name = name + "_scalar", .inputs = {input({})}, .run = run, .expect = expect});
  add({.name = name + "_nothing", .inputs = {input({0, 3})}, .run = run, .expect = expect});
  add({.name = name + "_view", .inputs = {transposed(input({3, 4}), 0, 1)}, .run = run, .expect = expect});
  add({.name = name + "_misaligned", .inputs = {sliced(input({33}), 0, 1, 33)}, .run = run, .expect = expect});
  add({.name = name + "_nan", .inputs = {values({1}, {NAN})}, .run = run, .expect = expect, .gradient = false});
  if (saturates(rule)) add({.name = name + "_far", .inputs = {values({6}, {-1e4, -100, -30, 30, 100, 1e4})}, .run = run, .expect = expect});
  add({.name = name + "_gpt", .inputs = {input({2048, 1536})}, .run = run, .bench = true});
}

/// a op b by plain loops over the broadcast shape.
template <class F>
auto broadcast_expect(F f) {
  return [f](const std::vector<Tensor>& x) {
    const Tensor a = broadcast_to(x[0], broadcast_shape("test", x[0].shape(), x[1].shape()));
    const Values b = broadcast_to(x[1], a.shape()).to_vector();
    Values y = a.to_vector();
    for (size_t i = 0; i < y.size(); ++i) y[i] = f(y[i], b[i]);
    return y;
  };
}

template <class Run, class F>
void binary_cases(const std::function<void(OpCase)>& add, Run run_two, F f) {
  const auto run = [run_two](const auto& x) { return run_two(x[0], x[1]); };
  const auto expect = broadcast_expect(f);
  const auto with = [&](const std::string& name, InputSpec a, InputSpec b) {
    add({.name = name, .inputs = {std::move(a), std::move(b)}, .run = run, .expect = expect});
  };
  const auto positive = [](const Shape& shape) { return uniform(shape, 0.5, 2); };
  with("same", randn({3, 5}), positive({3, 5}));
  with("trailing_vector", randn({2, 3, 17}), positive({17}));
  with("leading_vector", randn({17}), positive({2, 17}));
  with("column", randn({4, 9}), positive({4, 1}));
  with("outer_product", randn({4, 1}), positive({5}));
  with("middle", randn({2, 3, 4}), positive({2, 1, 4}));
  with("channels_of_images", randn({2, 3, 2, 8}), positive({2, 1, 1, 8}));
  with("scalar", randn({3, 4}), positive({}));
  with("scalars", randn({}), positive({}));
  with("nothing", randn({0, 3}), positive({3}));
  with("views", transposed(randn({3, 4}), 0, 1), sliced(positive({4, 6}), 1, 1, 4));
  with("misaligned_first", misaligned({32}), positive({32}));
  with("misaligned_second", randn({32}), sliced(positive({33}), 0, 1, 33));
  with("repeated_view", transposed(randn({3, 4}), 0, 1), transposed(positive({1, 4}), 0, 1));
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({2, 4})}, .run = run, .throws = "needs shapes that broadcast"});
  add({.name = "indices", .inputs = {indices({2}, 3), indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
  add({.name = "residual_gpt", .inputs = {randn({2048, 384}), randn({2048, 384})}, .run = run, .bench = true});
  add({.name = "vector_gpt", .inputs = {randn({2048, 384}), randn({384})}, .run = run, .bench = true});
  add({.name = "channels_resnet", .inputs = {randn({8, 28, 28, 512}), positive({8, 1, 1, 512})}, .run = run, .bench = true});
}

}  // namespace

OP_CASES(unary) {
#define SLUICE_CASES(Rule, name) unary_cases(add, Unary::Rule, #name);
  SLUICE_UNARY_OPS(SLUICE_CASES)
#undef SLUICE_CASES
  add({.name = "indices",
       .inputs = {indices({2}, 3)},
       .run = [](const auto& x) { return relu(x[0]); },
       .throws = "needs a floating dtype"});
}

OP_CASES(clamp) {
  const auto run = [](const auto& x) { return clamp(x[0], -0.7, 1.3); };
  const auto expect = [](const auto& x) {
    Values y = x[0].to_vector();
    for (double& value : y) value = std::isnan(value) ? value : std::clamp(value, -0.7, 1.3);
    return y;
  };
  add({.name = "odd", .inputs = {randn({5, 7}, 2)}, .run = run, .expect = expect});
  add({.name = "scalar", .inputs = {randn({})}, .run = run, .expect = expect});
  add({.name = "nothing", .inputs = {randn({0, 3})}, .run = run, .expect = expect});
  add({.name = "view", .inputs = {transposed(randn({3, 4}, 2), 0, 1)}, .run = run, .expect = expect});
  add({.name = "misaligned", .inputs = {misaligned({32})}, .run = run, .expect = expect});
  add({.name = "far", .inputs = {values({4}, {-1e4, -INFINITY, INFINITY, 1e4})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "nan", .inputs = {values({1}, {NAN})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "ends",
       .inputs = {randn({2})},
       .run = [](const auto& x) { return clamp(x[0], 1, 1); },
       .throws = "low < high, got 1 and 1"});
  add({.name = "indices", .inputs = {indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
  add({.name = "logits", .inputs = {randn({512, 32000})}, .run = run, .bench = true});
}

OP_CASES(add) {
  binary_cases(
      add, [](const Var& a, const Var& b) { return sluice::add(a, b); }, [](double a, double b) { return a + b; });
}
OP_CASES(sub) {
  binary_cases(
      add, [](const Var& a, const Var& b) { return sub(a, b); }, [](double a, double b) { return a - b; });
}
OP_CASES(mul) {
  binary_cases(
      add, [](const Var& a, const Var& b) { return mul(a, b); }, [](double a, double b) { return a * b; });
}
OP_CASES(div) {
  binary_cases(
      add, [](const Var& a, const Var& b) { return sluice::div(a, b); }, [](double a, double b) { return a / b; });
  add({.name = "dtypes",
       .inputs = {randn({2}), indices({2}, 3)},
       .run = [](const auto& x) { return sluice::div(x[0], x[1]); },
       .throws = "needs operands of one dtype"});
}

OP_CASES(scale) {
  const auto run = [](const auto& x) { return scale(x[0], -1.5); };
  const auto expect = [](const auto& x) {
    Values y = x[0].to_vector();
    for (double& value : y) value *= -1.5;
    return y;
  };
  add({.name = "odd", .inputs = {randn({3, 11})}, .run = run, .expect = expect});
  add({.name = "view", .inputs = {transposed(randn({3, 2}), 0, 1)}, .run = run, .expect = expect});
  add({.name = "misaligned", .inputs = {misaligned({33})}, .run = run, .expect = expect});
  add({.name = "nothing", .inputs = {randn({0})}, .run = run, .expect = expect});
}

OP_CASES(add_into) {
  const auto run = [](const auto& x) {
    const Tensor target = x[0].value().clone();
    add_into(target, x[1].value());
    return Var(target);
  };
  const auto expect = broadcast_expect([](double a, double b) { return a + b; });
  add({.name = "same", .inputs = {randn({3, 5}), randn({3, 5})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "view", .inputs = {randn({3, 5}), transposed(randn({5, 3}), 0, 1)}, .run = run, .expect = expect, .gradient = false});
  add({.name = "misaligned", .inputs = {randn({32}), misaligned({32})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "mismatch", .inputs = {randn({3, 5}), randn({5})}, .run = run, .throws = "needs equal shapes"});
}
