#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/ops/elementwise.h"
#include "tests/ops/broadcast_expect.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

double softplus_of(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

double reference(Unary rule, double x) {
  switch (rule) {
    case Unary::Neg:
      return -x;
    case Unary::Abs:
      return std::abs(x);
    case Unary::Sign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Unary::Floor:
      return std::floor(x);
    case Unary::Ceil:
      return std::ceil(x);
    case Unary::Round:
      return std::nearbyint(x);
    case Unary::Exp:
      return std::exp(x);
    case Unary::Expm1:
      return std::expm1(x);
    case Unary::Log:
      return std::log(x);
    case Unary::Log1p:
      return std::log1p(x);
    case Unary::Sqrt:
      return std::sqrt(x);
    case Unary::Rsqrt:
      return 1 / std::sqrt(x);
    case Unary::Square:
      return x * x;
    case Unary::Reciprocal:
      return 1 / x;
    case Unary::Sin:
      return std::sin(x);
    case Unary::Cos:
      return std::cos(x);
    case Unary::Tan:
      return std::tan(x);
    case Unary::Erf:
      return std::erf(x);
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
      return softplus_of(x);
    case Unary::Mish:
      return x * std::tanh(softplus_of(x));
    case Unary::Hardswish:
      return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    case Unary::Hardsigmoid:
      return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
  }
  return NAN;
}

bool needs_positive(Unary rule) {
  return rule == Unary::Log || rule == Unary::Log1p || rule == Unary::Sqrt || rule == Unary::Rsqrt || rule == Unary::Reciprocal;
}
bool saturates(Unary rule) { return rule >= Unary::Tanh; }
/// Steps and kinks at some whole numbers and halves: gradients are compared elsewhere.
bool has_steps(Unary rule) { return rule >= Unary::Abs && rule <= Unary::Round; }
bool is_periodic(Unary rule) { return rule >= Unary::Sin && rule <= Unary::Tan; }

InputSpec input_of(Unary rule, const Shape& shape) {
  if (rule == Unary::Tan) return uniform(shape, -1.2, 1.2);  // between its poles
  return needs_positive(rule) ? uniform(shape, 0.3, 3) : randn(shape, 2);
}

void unary_cases(const std::function<void(OpCase)>& add, Unary rule, const std::string& name) {
  const auto input = [rule](const Shape& shape) { return input_of(rule, shape); };
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
  const auto value_at = [&](const std::string& place, std::vector<double> at) {
    const Shape shape{static_cast<int64_t>(at.size())};
    add({.name = name + place, .inputs = {values(shape, std::move(at))}, .run = run, .expect = expect, .gradient = false});
  };
  if (has_steps(rule)) value_at("_steps", {-1e6, -2.5, -2, -1.5, -0.5, -0.25, -0.0, 0, 0.25, 0.5, 1.5, 2, 2.5, 1e6, -INFINITY, INFINITY});
  if (rule == Unary::Hardswish || rule == Unary::Hardsigmoid) value_at("_kinks", {-INFINITY, -3.5, -3, -2.75, 0, 2.75, 3, 3.5, INFINITY});
  if (is_periodic(rule)) value_at("_far", {-INFINITY, -4096, -1000, -100, -3, 3, 100, 1000, 4096, 131072, 1 << 20, INFINITY});
  add({.name = name + "_gpt", .inputs = {input({2048, 1536})}, .run = run, .bench = true});
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
  add({.name = "low_alone",
       .inputs = {randn({5, 7}, 2)},
       .run = [](const auto& x) { return clamp_min(x[0], -0.7); },
       .expect = each_expect([](double x) { return std::max(x, -0.7); })});
  add({.name = "high_alone",
       .inputs = {randn({5, 7}, 2)},
       .run = [](const auto& x) { return clamp_max(x[0], 0.7); },
       .expect = each_expect([](double x) { return std::min(x, 0.7); })});
  add({.name = "high_alone_far",
       .inputs = {values({3}, {-INFINITY, INFINITY, NAN})},
       .run = [](const auto& x) { return clamp_max(x[0], 0.7); },
       .expect = each_expect([](double x) { return x > 0.7 ? 0.7 : x; }),
       .gradient = false});
  add({.name = "logits", .inputs = {randn({512, 32000})}, .run = run, .bench = true});
}

namespace {

/// A function of x and a number that is x above 0, and f(x, number) below.
template <class Run, class F>
void kinked_cases(const std::function<void(OpCase)>& add, double standard, Run run_one, F f) {
  for (const double number : {standard, 0.3, 0.0, -0.5}) {
    const std::string name = number == standard ? "standard" : number == 0.3 ? "small" : number == 0 ? "zero" : "negative";
    const auto run = [=](const auto& x) { return number == standard ? run_one(x[0]) : run_one(x[0], number); };
    const auto expect = each_expect([=](double x) { return x > 0 ? x : f(x, number); });
    add({.name = name + "_odd", .inputs = {randn({5, 7}, 2)}, .run = run, .expect = expect});
    add({.name = name + "_scalar", .inputs = {randn({})}, .run = run, .expect = expect});
    add({.name = name + "_nothing", .inputs = {randn({0, 3})}, .run = run, .expect = expect});
    add({.name = name + "_view", .inputs = {transposed(randn({3, 4}, 2), 0, 1)}, .run = run, .expect = expect});
    add({.name = name + "_misaligned", .inputs = {misaligned({32})}, .run = run, .expect = expect});
    add({.name = name + "_far", .inputs = {values({6}, {-1e4, -100, -30, 30, 100, 1e4})}, .run = run, .expect = expect});
    add({.name = name + "_nan", .inputs = {values({2}, {NAN, 0})}, .run = run, .expect = expect, .gradient = false});
  }
  const auto run = [=](const auto& x) { return run_one(x[0]); };
  add({.name = "indices", .inputs = {indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
  add({.name = "gpt", .inputs = {randn({2048, 1536})}, .run = run, .bench = true});
}

}  // namespace

OP_CASES(leaky_relu) {
  kinked_cases(
      add, 0.01, [](const Var& x, auto... slope) { return leaky_relu(x, slope...); }, [](double x, double slope) { return slope * x; });
}
OP_CASES(elu) {
  kinked_cases(
      add, 1, [](const Var& x, auto... alpha) { return elu(x, alpha...); }, [](double x, double alpha) { return alpha * std::expm1(x); });
}
