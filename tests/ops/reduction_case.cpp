#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "core/ops/sums_of_squares.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Folds x [a, b, c] over the axes marked, by plain loops.
template <class F>
auto fold(std::array<bool, 3> reduced, double start, F f) {
  return [=](const std::vector<Tensor>& tensors) {
    const Tensor& x = tensors[0];
    const Values from = x.to_vector();
    int64_t extents[3], steps[3], size = 1;
    for (int axis = 2; axis >= 0; --axis) {
      extents[axis] = x.dim(axis);
      steps[axis] = reduced[axis] ? 0 : size;
      size *= reduced[axis] ? 1 : extents[axis];
    }
    Values y(size, start);
    size_t at = 0;
    for (int64_t i = 0; i < extents[0]; ++i)
      for (int64_t j = 0; j < extents[1]; ++j)
        for (int64_t k = 0; k < extents[2]; ++k) {
          double& target = y[i * steps[0] + j * steps[1] + k * steps[2]];
          target = f(target, from[at++]);
        }
    return y;
  };
}

template <class Op, class F>
void reduction_cases(const std::function<void(OpCase)>& add, Op op, double start, F f) {
  const auto with = [&](const std::string& name, InputSpec x, std::vector<int> axes, std::array<bool, 3> reduced) {
    for (bool keep : {false, true})
      add({.name = name + (keep ? "_kept" : ""),
           .inputs = {x},
           .run = [=](const auto& in) { return op(in[0], axes, keep); },
           .expect = fold(reduced, start, f),
           .tolerance_scale = 4});
  };
  with("last", randn({2, 3, 37}), {-1}, {false, false, true});
  with("first", randn({70, 2, 3}), {0}, {true, false, false});
  with("middle", randn({2, 5, 3}), {1}, {false, true, false});
  with("outer_and_inner", randn({3, 4, 5}), {0, 2}, {true, false, true});
  with("all", randn({2, 3, 5}), {}, {true, true, true});
  with("of_view", transposed(randn({4, 2, 3}), 0, 2), {2}, {false, false, true});
  with("misaligned_rows", misaligned({2, 3, 32}), {2}, {false, false, true});
  with("misaligned_columns", misaligned({4, 5, 16}), {1}, {false, true, false});
  with("none_left", randn({2, 0, 3}), {2}, {false, false, true});
  add({.name = "scalar",
       .inputs = {randn({})},
       .run = [=](const auto& x) { return op(x[0], {}, false); },
       .expect = [](const auto& x) { return x[0].to_vector(); }});
  add({.name = "no_axis",
       .inputs = {randn({2, 3})},
       .run = [=](const auto& x) { return op(x[0], {2}, false); },
       .throws = "needs an axis in"});
  add({.name = "rows_gpt", .inputs = {randn({2048, 384})}, .run = [=](const auto& x) { return op(x[0], {1}, false); }, .bench = true});
  add({.name = "columns_gpt", .inputs = {randn({2048, 384})}, .run = [=](const auto& x) { return op(x[0], {0}, false); }, .bench = true});
}

}  // namespace

/// x [2, 2, 257] whose sums over the last axis are 257 and -256 in turn: rounded to bf16 they would cancel.
InputSpec almost_cancelling() {
  std::vector<double> elements(4 * 257, 1);
  std::fill_n(elements.begin() + 2 * 257, 2 * 257, -1.0);
  elements[2 * 257] = elements[3 * 257] = 0;
  return values({2, 2, 257}, elements);
}

OP_CASES(sum) {
  const auto plus = [](double a, double b) { return a + b; };
  reduction_cases(
      add, [](const Var& x, std::vector<int> axes, bool keep) { return sum(x, axes, keep); }, 0, plus);
  add({.name = "of_nothing",
       .inputs = {randn({2, 0, 3})},
       .run = [](const auto& x) { return sum(x[0], {1}); },
       .expect = fold({false, true, false}, 0, plus)});
  add({.name = "twice", .inputs = {randn({2, 3})}, .run = [](const auto& x) { return sum(x[0], {0, -2}); }, .throws = "distinct axes"});
  add({.name = "rounds_once",
       .inputs = {almost_cancelling()},
       .run =
           [](const auto& x) {
             return sum(x[0], {0, 2});
           },
       .expect = fold({true, false, true}, 0, plus)});
  add({.name = "sums_to_one_a_column",
       .inputs = {almost_cancelling()},
       .run =
           [](const auto& x) {
             return Var(sum_to(x[0].value(), {1, 2, 1}));
           },
       .expect = fold({true, false, true}, 0, plus),
       .gradient = false});
  // A running f32 sum of a million equal numbers is wrong in the third digit.
  add({.name = "million",
       .inputs = {constant({1000000}, 0.1)},
       .run = [](const auto& x) { return sum(x[0]); },
       .expect = [](const auto& x) { return Values{1e6 * x[0].slice(0, 0, 1).item()}; },
       .gradient = false,
       .low_precision = false});
}

OP_CASES(prod) {
  const auto times = [](double a, double b) { return a * b; };
  reduction_cases(
      add, [](const Var& x, std::vector<int> axes, bool keep) { return prod(x, axes, keep); }, 1, times);
  add({.name = "of_nothing",
       .inputs = {randn({2, 0, 3})},
       .run = [](const auto& x) { return prod(x[0], {1}); },
       .expect = fold({false, true, false}, 1, times)});
  // None, one and two factors of 0: the gradient of a 0 alone is the product of the others.
  const InputSpec zeros = values({3, 1, 4}, {2, -3, 0.5, 4, 2, 0, -0.5, 4, 0, 3, 0.5, 0});
  add({.name = "with_zeros",
       .inputs = {zeros},
       .run = [](const auto& x) { return prod(x[0], {-1}); },
       .expect = fold({false, false, true}, 1, times)});
  add({.name = "with_zeros_in_columns",
       .inputs = {transposed(zeros, 0, 2)},
       .run = [](const auto& x) { return prod(x[0], {0}); },
       .expect = fold({true, false, false}, 1, times)});
  add({.name = "with_a_zero_in_all",
       .inputs = {values({2, 2, 2}, {2, -3, 0.5, 4, 2, 0, -0.5, 4})},
       .run = [](const auto& x) { return prod(x[0]); },
       .expect = fold({true, true, true}, 1, times)});
  add({.name = "long_rows",
       .inputs = {uniform({3, 1, 900}, 0.99, 1.01)},
       .run = [](const auto& x) { return prod(x[0], {2}); },
       .expect = fold({false, false, true}, 1, times),
       .tolerance_scale = 16});
  add({.name = "nan",
       .inputs = {values({4}, {1, NAN, 0, 2})},
       .run = [](const auto& x) { return prod(x[0]); },
       .expect = [](const auto&) { return Values{NAN}; },
       .gradient = false});
  // The gradient of a factor is the product of the others: 0 beside a 0, but NaN where that is multiplied by an infinity or a NaN.
  add({.name = "gradient_beside_zeros_and_infinities",
       .inputs = {values({6, 3}, {0, 0, NAN, 0, 0, INFINITY, 0, NAN, 2, 0, 3, INFINITY, 0, NAN, NAN, 0, 0, 5})},
       .run =
           [](const auto& x) {
             return Var(prod_backward(x[0].value(), 1, ones({6, 1}, x[0].dtype(), x[0].value().device_ptr())));
           },
       .expect = [](const auto&) { return Values{NAN, NAN, 0, NAN, NAN, 0, NAN, 0, NAN, INFINITY, NAN, 0, NAN, NAN, NAN, 0, 0, 0}; },
       .gradient = false});
  // What lies between the groups of axes is not rounded to bf16.
  add({.name = "of_a_tensor",
       .inputs = {uniform({3, 2, 5}, 0.5, 2)},
       .run =
           [](const auto& x) {
             return Var(prod(x[0].value(), {0, 2}));
           },
       .expect = fold({true, false, true}, 1, times),
       .gradient = false});
}

OP_CASES(mean) {
  add({.name = "rounds_once",
       .inputs = {almost_cancelling()},
       .run =
           [](const auto& x) {
             return scale(mean(x[0], {0, 2}), 514);
           },
       .expect =
           [](const auto&) {
             return Values{1, 1};
           }});
  add({.name = "last",
       .inputs = {randn({3, 8})},
       .run = [](const auto& x) { return mean(x[0], {1}); },
       .expect =
           [](const auto& x) {
             const Values from = x[0].to_vector();
             Values y(3, 0);
             for (int i = 0; i < 24; ++i) y[i / 8] += from[i] / 8;
             return y;
           }});
  add({.name = "all_kept",
       .inputs = {constant({3, 5}, 2)},
       .run = [](const auto& x) { return mean(x[0], {}, true); },
       .expect = [](const auto&) { return Values{2}; }});
  add({.name = "of_nothing",
       .inputs = {randn({0, 3})},
       .run = [](const auto& x) { return mean(x[0], {0}); },
       .throws = "at least one element"});
}

OP_CASES(max) {
  const auto larger = [](double a, double b) { return std::max(a, b); };
  reduction_cases(
      add, [](const Var& x, std::vector<int> axes, bool keep) { return max(x, axes, keep); }, -INFINITY, larger);
  add({.name = "nan",
       .inputs = {values({4}, {1, NAN, 2, 0})},
       .run = [](const auto& x) { return max(x[0]); },
       .expect = [](const auto&) { return Values{NAN}; },
       .gradient = false});
  add({.name = "of_nothing",
       .inputs = {randn({0, 3})},
       .run = [](const auto& x) { return max(x[0], {0}); },
       .throws = "at least one element"});
}

OP_CASES(min) {
  const auto smaller = [](double a, double b) { return std::min(a, b); };
  reduction_cases(
      add, [](const Var& x, std::vector<int> axes, bool keep) { return min(x, axes, keep); }, INFINITY, smaller);
  add({.name = "nan",
       .inputs = {values({4}, {1, NAN, 2, 0})},
       .run = [](const auto& x) { return min(x[0]); },
       .expect = [](const auto&) { return Values{NAN}; },
       .gradient = false});
  add({.name = "of_a_tensor",
       .inputs = {randn({3, 8})},
       .run =
           [](const auto& x) {
             return Var(min(x[0].value(), {0, 1}));
           },
       .expect = [](const auto& x) { return Values{std::ranges::min(x[0].to_vector())}; },
       .gradient = false});
}

/// Of the rows of x, by plain loops.
auto naive_variance(double correction) {
  return [correction](const std::vector<Tensor>& x) {
    const Values from = x[0].to_vector();
    const auto n = static_cast<size_t>(x[0].dim(-1));
    Values y;
    for (size_t row = 0; row < from.size(); row += n) {
      double mean = 0, squares = 0;
      for (size_t i = row; i < row + n; ++i) mean += from[i] / static_cast<double>(n);
      for (size_t i = row; i < row + n; ++i) squares += (from[i] - mean) * (from[i] - mean);
      y.push_back(squares / (static_cast<double>(n) - correction));
    }
    return y;
  };
}

OP_CASES(variance) {
  const auto of_rows = [](double correction, bool keep) {
    return [=](const std::vector<Var>& x) { return variance(x[0], {-1}, keep, correction); };
  };
  add({.name = "rows", .inputs = {randn({3, 37})}, .run = of_rows(1, false), .expect = naive_variance(1)});
  add({.name = "rows_kept", .inputs = {randn({3, 37})}, .run = of_rows(1, true), .expect = naive_variance(1)});
  add({.name = "of_the_elements_themselves", .inputs = {randn({3, 5})}, .run = of_rows(0, false), .expect = naive_variance(0)});
  add({.name = "of_view", .inputs = {transposed(randn({5, 3}), 0, 1)}, .run = of_rows(1, false), .expect = naive_variance(1)});
  add({.name = "all",
       .inputs = {randn({4, 6})},
       .run = [](const auto& x) { return variance(x[0]); },
       .expect =
           [](const auto& x) {
             return naive_variance(1)({x[0].reshape({1, 24})});
           }});
  add({.name = "far_from_zero",  // where the mean of the squares less the square of the mean has no digit left in f32
       .inputs = {values({1, 4}, {4096, 4098, 4100, 4102})},
       .run = of_rows(1, false),
       .expect = [](const auto&) { return Values{20.0 / 3}; },
       .gradient = false,
       .low_precision = false});
  add({.name = "of_a_tensor",
       .inputs = {randn({3, 8})},
       .run = [](const auto& x) { return Var(variance(x[0].value(), {1})); },
       .expect = naive_variance(1),
       .gradient = false});
  add({.name = "of_one", .inputs = {randn({3, 1})}, .run = of_rows(1, false), .throws = "more elements than the correction of 1"});
  add({.name = "no_axis",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return variance(x[0], {2}); },
       .throws = "needs an axis in"});
}

OP_CASES(sum_of_squares) {
  const auto run = [](const auto& x) { return Var(sum_of_squares(x[0].value())); };
  const auto expect = [](const auto& x) {
    double total = 0;
    for (double value : x[0].to_vector()) total += value * value;
    return Values{total};
  };
  add({.name = "odd", .inputs = {randn({7, 11})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "chunks", .inputs = {randn({70000})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "view", .inputs = {transposed(randn({7, 11}), 0, 1)}, .run = run, .expect = expect, .gradient = false});
  add({.name = "misaligned", .inputs = {misaligned({33})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "nothing", .inputs = {randn({0})}, .run = run, .expect = expect, .gradient = false});
  add({.name = "gpt", .inputs = {randn({8192, 384})}, .run = run, .bench = true});
}
