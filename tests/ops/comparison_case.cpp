#include <cmath>

#include "autograd/ops/operators.h"
#include "core/ops/comparison.h"
#include "tests/ops/broadcast_expect.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

template <class Run, class F>
void comparison_cases(const std::function<void(OpCase)>& add, Run run_two, F f) {
  const auto run = [run_two](const auto& x) { return Var(run_two(x[0], x[1])); };
  const auto with = [&](const std::string& name, InputSpec a, InputSpec b) {
    add({.name = name, .inputs = {std::move(a), std::move(b)}, .run = run, .expect = broadcast_expect(f), .gradient = false});
  };
  with("same", values({4}, {0, -1, 2.5, 7}), values({4}, {-0.0, -1, 3, -7}));
  with("random", randn({5, 7}), randn({5, 7}));
  with("trailing_vector", randn({2, 3, 16}), randn({16}));
  with("column", randn({4, 1}), randn({4, 32}));
  with("scalars", randn({}), randn({}));
  with("nothing", randn({0, 3}), randn({3}));
  with("views", transposed(randn({3, 4}), 0, 1), sliced(randn({4, 6}), 1, 1, 4));
  with("misaligned", misaligned({32}), randn({32}));
  with("ends", values({5}, {NAN, 1, INFINITY, -INFINITY, INFINITY}), values({5}, {NAN, NAN, INFINITY, INFINITY, 1}));
  for (DType dtype : {DType::i32, DType::i64, DType::u8})
    with(std::string(name_of(dtype)), indices({3, 32}, 3, dtype), indices({32}, 3, dtype));
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({2, 4})}, .run = run, .throws = "needs shapes that broadcast"});
  add({.name = "dtypes", .inputs = {randn({2}), indices({2}, 3)}, .run = run, .throws = "needs operands of one dtype"});
  add({.name = "causal_gpt", .inputs = {randn({2048, 1}), randn({2048})}, .run = run, .gradient = false, .bench = true});
  add({.name = "residual_gpt", .inputs = {randn({2048, 384}), randn({2048, 384})}, .run = run, .gradient = false, .bench = true});
}

/// A condition of the first input.
void condition_case(const std::function<void(OpCase)>& add, const std::string& name, InputSpec x, std::function<Tensor(const Tensor&)> run,
                    std::function<Values(const std::vector<Tensor>&)> expect) {
  add({.name = name,
       .inputs = {std::move(x)},
       .run = [run](const auto& inputs) { return Var(run(inputs[0].value())); },
       .expect = std::move(expect),
       .gradient = false});
}

}  // namespace

OP_CASES(less) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a < b; }, [](double a, double b) { return a < b; });
  condition_case(
      add, "number", randn({3, 5}), [](const Tensor& x) { return x < 0.5; }, each_expect([](double x) { return x < 0.5; }));
  condition_case(
      add, "from_number", randn({3, 5}), [](const Tensor& x) { return 0.5 < x; }, each_expect([](double x) { return 0.5 < x; }));
  condition_case(
      add, "integer_and_number", indices({3, 5}, 9, DType::i64), [](const Tensor& x) { return x < 5; },
      each_expect([](double x) { return x < 5; }));
  add({.name = "integer_and_fraction",
       .inputs = {indices({3}, 9, DType::u8)},
       .run = [](const auto& x) { return Var(x[0] < 256); },
       .throws = "less: needs numbers that u8 holds, got 256"});
}
OP_CASES(less_equal) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a <= b; }, [](double a, double b) { return a <= b; });
}
OP_CASES(greater) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a > b; }, [](double a, double b) { return a > b; });
  condition_case(
      add, "number", randn({3, 5}), [](const Tensor& x) { return x > 0.5; }, each_expect([](double x) { return x > 0.5; }));
}
OP_CASES(greater_equal) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a >= b; }, [](double a, double b) { return a >= b; });
}
OP_CASES(equal) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a == b; }, [](double a, double b) { return a == b; });
}
OP_CASES(not_equal) {
  comparison_cases(
      add, [](const Var& a, const Var& b) { return a != b; }, [](double a, double b) { return a != b; });
}

OP_CASES(logical) {
  const auto both = [](const auto& x) { return Var(logical_and(x[0].value(), x[1].value())); };
  const auto either = [](const auto& x) { return Var(logical_or(x[0].value(), x[1].value())); };
  const auto masks = [](int64_t rows) { return std::vector{indices({rows, 32}, 3, DType::u8), indices({rows, 32}, 3, DType::u8)}; };
  add({.name = "and",
       .inputs = masks(3),
       .run = both,
       .expect = broadcast_expect([](double a, double b) { return a && b; }),
       .gradient = false});
  add({.name = "or",
       .inputs = masks(3),
       .run = either,
       .expect = broadcast_expect([](double a, double b) { return a || b; }),
       .gradient = false});
  add({.name = "nothing",
       .inputs = masks(0),
       .run = both,
       .expect = broadcast_expect([](double a, double b) { return a && b; }),
       .gradient = false});
  condition_case(
      add, "not", indices({5, 7}, 3, DType::u8), [](const Tensor& x) { return logical_not(x); }, each_expect([](double x) { return !x; }));
  add({.name = "numbers", .inputs = {randn({2}), randn({2})}, .run = both, .throws = "logical_and: needs conditions of u8"});
  add({.name = "mask_gpt", .inputs = masks(2048), .run = both, .gradient = false, .bench = true});
}

OP_CASES(any_all) {
  const auto mask = values({3, 2}, {0, 0, 0, 1, 1, 1});
  const auto of_mask = [&](auto reduce) { return [reduce](const Tensor& x) { return reduce(x != 0); }; };
  const auto gives = [](Values y) { return [y](const std::vector<Tensor>&) { return y; }; };
  const auto with = [&](const std::string& name, InputSpec x, auto reduce, Values y) {
    condition_case(add, name, std::move(x), of_mask(reduce), gives(std::move(y)));
  };
  with("any_of_all", mask, [](const Tensor& x) { return any(x); }, {1});
  with("all_of_all", mask, [](const Tensor& x) { return all(x); }, {0});
  with("any_of_rows", mask, [](const Tensor& x) { return any(x, {1}); }, {0, 1, 1});
  with("all_of_rows", mask, [](const Tensor& x) { return all(x, {1}, true); }, {0, 0, 1});
  with("any_of_columns", mask, [](const Tensor& x) { return any(x, {0}); }, {1, 1});
  with("any_of_nothing", constant({0, 2}, 1), [](const Tensor& x) { return any(x, {0}); }, {0, 0});
  with("all_of_nothing", constant({0, 2}, 1), [](const Tensor& x) { return all(x, {0}); }, {1, 1});
  with("any_of_a_scalar", constant({}, 1), [](const Tensor& x) { return any(x); }, {1});
  add({.name = "numbers",
       .inputs = {randn({2})},
       .run = [](const auto& x) { return Var(any(x[0].value())); },
       .throws = "any: needs conditions of u8"});
}

OP_CASES(isfinite) {
  const auto ends = values({6}, {0, -3, 1e30, INFINITY, -INFINITY, NAN});
  condition_case(
      add, "finite", ends, [](const Tensor& x) { return isfinite(x); }, each_expect([](double x) { return std::isfinite(x); }));
  condition_case(
      add, "nan", ends, [](const Tensor& x) { return isnan(x); }, each_expect([](double x) { return std::isnan(x); }));
  add({.name = "indices",
       .inputs = {indices({2}, 3)},
       .run = [](const auto& x) { return Var(isnan(x[0].value())); },
       .throws = "isnan: needs a floating dtype"});
}
