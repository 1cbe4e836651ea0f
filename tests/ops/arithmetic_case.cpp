#include <algorithm>
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "tests/ops/broadcast_expect.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

using Maker = std::function<InputSpec(const Shape&)>;

InputSpec normal(const Shape& shape) { return randn(shape); }
InputSpec positive(const Shape& shape) { return uniform(shape, 0.5, 2); }

template <class Run, class F>
void binary_cases(const std::function<void(OpCase)>& add, Run run_two, F f, const Maker& first = normal) {
  const auto run = [run_two](const auto& x) { return run_two(x[0], x[1]); };
  const auto expect = broadcast_expect(f);
  const auto with = [&](const std::string& name, InputSpec a, InputSpec b) {
    add({.name = name, .inputs = {std::move(a), std::move(b)}, .run = run, .expect = expect});
  };
  with("same", first({3, 5}), positive({3, 5}));
  with("trailing_vector", first({2, 3, 17}), positive({17}));
  with("leading_vector", first({17}), positive({2, 17}));
  with("column", first({4, 9}), positive({4, 1}));
  with("outer_product", first({4, 1}), positive({5}));
  with("middle", first({2, 3, 4}), positive({2, 1, 4}));
  with("channels_of_images", first({2, 3, 2, 8}), positive({2, 1, 1, 8}));
  with("scalar", first({3, 4}), positive({}));
  with("scalars", first({}), positive({}));
  with("nothing", first({0, 3}), positive({3}));
  with("views", transposed(first({3, 4}), 0, 1), sliced(positive({4, 6}), 1, 1, 4));
  with("misaligned_first", sliced(first({33}), 0, 1, 33), positive({32}));
  with("misaligned_second", first({32}), sliced(positive({33}), 0, 1, 33));
  with("repeated_view", transposed(first({3, 4}), 0, 1), transposed(positive({1, 4}), 0, 1));
  add({.name = "mismatch", .inputs = {first({2, 3}), first({2, 4})}, .run = run, .throws = "needs shapes that broadcast"});
  add({.name = "residual_gpt", .inputs = {first({2048, 384}), first({2048, 384})}, .run = run, .bench = true});
  add({.name = "vector_gpt", .inputs = {first({2048, 384}), first({384})}, .run = run, .bench = true});
  add({.name = "channels_resnet", .inputs = {first({8, 28, 28, 512}), positive({8, 1, 1, 512})}, .run = run, .bench = true});
}

/// Whole numbers, of every dtype that has some.
template <class Run, class F>
void integer_cases(const std::function<void(OpCase)>& add, Run run_two, F f) {
  const auto run = [run_two](const auto& x) { return run_two(x[0], x[1]); };
  for (DType dtype : {DType::i32, DType::i64, DType::u8}) {
    const auto with = [&](const std::string& name, InputSpec a, InputSpec b) {
      add({.name = name + std::string(name_of(dtype)),
           .inputs = {std::move(a), std::move(b)},
           .run = run,
           .expect =
               broadcast_expect([f, dtype](double x, double y) { return dtype == DType::u8 ? std::fmod(f(x, y) + 256, 256) : f(x, y); }),
           .gradient = false});
    };
    with("same_", indices({3, 16}, 16, dtype), indices({3, 16}, 16, dtype));
    with("column_", indices({3, 5}, 250, dtype), indices({3, 1}, 250, dtype));
    with("view_", transposed(indices({3, 4}, 9, dtype), 0, 1), indices({}, 9, dtype));
    with("nothing_", indices({0, 4}, 9, dtype), indices({4}, 9, dtype));
  }
}

/// An op with the number 2.5 on one side.
template <class Run, class F>
void number_cases(const std::function<void(OpCase)>& add, const std::string& name, Run run_one, F f, const Maker& input = positive) {
  const auto run = [run_one](const auto& x) { return run_one(x[0]); };
  const auto with = [&](const std::string& shape, InputSpec x) {
    add({.name = name + shape, .inputs = {std::move(x)}, .run = run, .expect = each_expect(f)});
  };
  with("_odd", input({3, 11}));
  with("_scalar", input({}));
  with("_nothing", input({0, 3}));
  with("_view", transposed(input({3, 2}), 0, 1));
  with("_misaligned", sliced(input({33}), 0, 1, 33));
  add({.name = name + "_gpt", .inputs = {input({2048, 1536})}, .run = run, .bench = true});
}

}  // namespace

OP_CASES(add) {
  const auto run = [](const Var& a, const Var& b) { return sluice::add(a, b); };
  const auto sum = [](double a, double b) { return a + b; };
  binary_cases(add, run, sum);
  integer_cases(add, run, sum);
  number_cases(
      add, "number", [](const Var& x) { return sluice::add(x, 2.5); }, [](double x) { return x + 2.5; }, normal);
  add({.name = "integer_and_number",
       .inputs = {indices({3, 5}, 9)},
       .run = [](const auto& x) { return sluice::add(x[0], 7); },
       .expect = each_expect([](double x) { return x + 7; }),
       .gradient = false});
  add({.name = "integer_and_fraction",
       .inputs = {indices({3}, 9)},
       .run = [](const auto& x) { return sluice::add(x[0], 2.5); },
       .throws = "needs numbers that i32 holds, got 2.5"});
}
OP_CASES(sub) {
  const auto run = [](const Var& a, const Var& b) { return sub(a, b); };
  const auto difference = [](double a, double b) { return a - b; };
  binary_cases(add, run, difference);
  integer_cases(add, run, difference);
  number_cases(
      add, "number", [](const Var& x) { return sub(x, 2.5); }, [](double x) { return x - 2.5; }, normal);
  number_cases(
      add, "from_number", [](const Var& x) { return sub(2.5, x); }, [](double x) { return 2.5 - x; }, normal);
  add({.name = "integer_from_number",
       .inputs = {indices({3, 5}, 9, DType::i64)},
       .run = [](const auto& x) { return sub(7, x[0]); },
       .expect = each_expect([](double x) { return 7 - x; }),
       .gradient = false});
}
OP_CASES(mul) {
  const auto run = [](const Var& a, const Var& b) { return mul(a, b); };
  const auto product = [](double a, double b) { return a * b; };
  binary_cases(add, run, product);
  integer_cases(add, run, product);
  number_cases(
      add, "number", [](const Var& x) { return mul(2.5, x); }, [](double x) { return x * 2.5; }, normal);
  add({.name = "integer_and_number",
       .inputs = {indices({3, 5}, 9)},
       .run = [](const auto& x) { return mul(x[0], -3); },
       .expect = each_expect([](double x) { return -3 * x; }),
       .gradient = false});
}
OP_CASES(div) {
  const auto run = [](const Var& a, const Var& b) { return sluice::div(a, b); };
  binary_cases(add, run, [](double a, double b) { return a / b; });
  number_cases(
      add, "number", [](const Var& x) { return sluice::div(x, 2.5); }, [](double x) { return x / 2.5; }, normal);
  number_cases(
      add, "into_number", [](const Var& x) { return sluice::div(2.5, x); }, [](double x) { return 2.5 / x; });
  const auto run_all = [run](const auto& x) { return run(x[0], x[1]); };
  add({.name = "indices", .inputs = {indices({2}, 3), indices({2}, 3)}, .run = run_all, .throws = "needs a floating dtype"});
  add({.name = "dtypes", .inputs = {randn({2}), indices({2}, 3)}, .run = run_all, .throws = "needs operands of one dtype"});
}

OP_CASES(pow) {
  binary_cases(
      add, [](const Var& a, const Var& b) { return pow(a, b); }, [](double a, double b) { return std::pow(a, b); }, positive);
  const auto powers = [&](const std::string& name, double exponent, const Maker& input) {
    number_cases(
        add, name, [exponent](const Var& x) { return pow(x, exponent); }, [exponent](double x) { return std::pow(x, exponent); }, input);
  };
  powers("fraction", 2.5, positive);
  powers("inverse", -1.5, positive);
  powers("square", 2, normal);
  powers("cube", 3, normal);
  powers("first", 1, normal);
  powers("none", 0, normal);
  const auto run = [](const auto& x) { return pow(x[0], x[1]); };
  const auto expect = broadcast_expect([](double a, double b) { return std::pow(a, b); });
  add({.name = "ends",
       .inputs = {values({7}, {0, 0, 0, -2, -2, NAN, 1}), values({7}, {0, 2, -1, 3, 0.5, 0, NAN})},
       .run = run,
       .expect = expect,
       .gradient = false});
  add({.name = "indices", .inputs = {indices({2}, 3), indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
}

namespace {

template <class Run, class F>
void extreme_cases(const std::function<void(OpCase)>& add, Run run_two, F f) {
  binary_cases(add, run_two, f);
  const auto run = [run_two](const auto& x) { return run_two(x[0], x[1]); };
  add({.name = "ends",
       .inputs = {values({5}, {NAN, 1, INFINITY, -INFINITY, 3}), values({5}, {1, NAN, 2, 2, 3})},
       .run = run,
       .expect = broadcast_expect([f](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : f(a, b); }),
       .gradient = false});
  add({.name = "indices", .inputs = {indices({2}, 3), indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
}

}  // namespace

OP_CASES(maximum) {
  extreme_cases(
      add, [](const Var& a, const Var& b) { return maximum(a, b); }, [](double a, double b) { return std::max(a, b); });
}
OP_CASES(minimum) {
  extreme_cases(
      add, [](const Var& a, const Var& b) { return minimum(a, b); }, [](double a, double b) { return std::min(a, b); });
}

OP_CASES(prelu) {
  const auto expect = [](double x, double slope) { return x > 0 ? x : slope * x; };
  const auto run_two = [](const Var& x, const Var& slope) { return prelu(x, slope); };
  binary_cases(add, run_two, expect);
  const auto run = [run_two](const auto& x) { return run_two(x[0], x[1]); };
  add({.name = "ends",
       .inputs = {values({5}, {NAN, -INFINITY, INFINITY, 0, 1}), values({5}, {1, 0.5, 2, 2, NAN})},
       .run = run,
       .expect = broadcast_expect(expect),
       .gradient = false});
  add({.name = "indices", .inputs = {indices({2}, 3), indices({2}, 3)}, .run = run, .throws = "needs a floating dtype"});
}

OP_CASES(scale) {
  number_cases(
      add, "factor", [](const Var& x) { return scale(x, -1.5); }, [](double x) { return -1.5 * x; }, normal);
  add({.name = "indices",
       .inputs = {indices({2}, 3)},
       .run = [](const auto& x) { return scale(x[0], 2); },
       .throws = "scale: needs a floating dtype"});
}
OP_CASES(affine) {
  number_cases(
      add, "line", [](const Var& x) { return affine(x, -1.5, 0.25); }, [](double x) { return -1.5 * x + 0.25; }, normal);
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
