#include <algorithm>
#include <cmath>

#include "autograd/ops/softmax.h"
#include "core/ops/softmax.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values naive_log_softmax(const std::vector<Tensor>& x) {
  Values y = x[0].to_vector();
  const int64_t n = x[0].dim(-1);
  for (auto row = y.begin(); row != y.end(); row += n) {
    const double maximum = *std::max_element(row, row + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - maximum);
    for (int64_t i = 0; i < n; ++i) row[i] -= maximum + std::log(sum);
  }
  return y;
}

Values naive_softmax(const std::vector<Tensor>& x) {
  Values y = naive_log_softmax(x);
  for (double& value : y) value = std::exp(value);
  return y;
}

const Values kLarge{1e4, 9999, -1e4, -1e4, -1e4, -9999.5};

}  // namespace

/// The reference over rows, of x [a, b, c] over one of its axes.
auto over_axis(int axis, Values (*reference)(const std::vector<Tensor>&)) {
  return [=](const std::vector<Tensor>& x) {
    const Tensor turned = x[0].transpose(axis, -1).contiguous();
    return tensor_of(reference({turned}), turned.shape(), DType::f64).transpose(axis, -1).to_vector();
  };
}

OP_CASES(softmax) {
  for (const int axis : {0, 1, -2, 2}) {
    const std::string name = "axis_" + std::string(axis < 0 ? "from_end_" : "") + std::to_string(std::abs(axis));
    add({.name = name,
         .inputs = {randn({3, 5, 4})},
         .run = [=](const auto& x) { return softmax(x[0], axis); },
         .expect = over_axis(axis, naive_softmax)});
    add({.name = name + "_of_a_tensor",
         .inputs = {transposed(randn({3, 5, 4}), 0, 1)},
         .run = [=](const auto& x) { return Var(softmax(x[0].value(), axis)); },
         .expect = over_axis(axis, naive_softmax),
         .gradient = false});
  }
  add({.name = "no_axis", .inputs = {randn({2, 3})}, .run = [](const auto& x) { return softmax(x[0], 2); }, .throws = "needs an axis in"});
  add({.name = "empty_axis",
       .inputs = {randn({0, 3})},
       .run = [](const auto& x) { return softmax(x[0], 0); },
       .throws = "got f32 [0, 3] on"});
  const auto run = [](const std::vector<Var>& x) { return softmax(x[0]); };
  add({.name = "small", .inputs = {randn({4, 7})}, .run = run, .expect = naive_softmax});
  add({.name = "odd_rows", .inputs = {randn({2, 3, 37})}, .run = run, .expect = naive_softmax});
  add({.name = "vector", .inputs = {randn({70})}, .run = run, .expect = naive_softmax});
  add({.name = "one_column", .inputs = {randn({3, 1})}, .run = run, .expect = naive_softmax});
  add({.name = "no_rows", .inputs = {randn({0, 5})}, .run = run, .expect = naive_softmax});
  add({.name = "all_equal", .inputs = {constant({2, 9}, 1e4)}, .run = run, .expect = naive_softmax});
  add({.name = "large", .inputs = {values({2, 3}, kLarge)}, .run = run, .expect = naive_softmax});
  add({.name = "view", .inputs = {transposed(randn({5, 3}), 0, 1)}, .run = run, .expect = naive_softmax});
  add({.name = "unaligned_view", .inputs = {sliced(randn({4, 19}), 0, 1, 4)}, .run = run, .expect = naive_softmax});
  add({.name = "misaligned", .inputs = {misaligned({3, 16})}, .run = run, .expect = naive_softmax});
  add({.name = "no_columns", .inputs = {randn({2, 0})}, .run = run, .throws = "non-empty axis"});
  add({.name = "scalar", .inputs = {randn({})}, .run = run, .throws = "non-empty axis"});
  add({.name = "attention", .inputs = {randn({8 * 6 * 256, 256})}, .run = run, .bench = true});
}

/// The gradient of rows that are not there.
OpCase refused_gradient(const std::string& name, const Shape& shape, Tensor (*backward)(const Tensor&, const Tensor&)) {
  return {.name = name,
          .inputs = {randn(shape), randn(shape)},
          .run = [=](const auto& x) { return Var(backward(x[0].value(), x[1].value())); },
          .throws = "_backward: needs a non-empty axis"};
}

OP_CASES(softmax_backward) {
  add(refused_gradient("no_columns", {2, 0}, softmax_backward));
  add(refused_gradient("scalar", {}, softmax_backward));
}

OP_CASES(log_softmax_backward) {
  add(refused_gradient("no_columns", {2, 0}, log_softmax_backward));
  add(refused_gradient("scalar", {}, log_softmax_backward));
}

OP_CASES(log_softmax) {
  add({.name = "axis_1",
       .inputs = {randn({3, 5, 4})},
       .run = [](const auto& x) { return log_softmax(x[0], 1); },
       .expect = over_axis(1, naive_log_softmax)});
  const auto run = [](const std::vector<Var>& x) { return log_softmax(x[0]); };
  add({.name = "small", .inputs = {randn({4, 7})}, .run = run, .expect = naive_log_softmax});
  add({.name = "odd_rows", .inputs = {randn({2, 3, 37})}, .run = run, .expect = naive_log_softmax});
  add({.name = "one_column", .inputs = {randn({3, 1})}, .run = run, .expect = naive_log_softmax});
  add({.name = "no_rows", .inputs = {randn({0, 5})}, .run = run, .expect = naive_log_softmax});
  add({.name = "all_equal", .inputs = {constant({2, 9}, -1e4)}, .run = run, .expect = naive_log_softmax});
  // Central differences of values near 1e4 lose ten digits of sixteen.
  add({.name = "large", .inputs = {values({2, 3}, kLarge)}, .run = run, .expect = naive_log_softmax, .tolerance_scale = 10});
  add({.name = "view", .inputs = {transposed(randn({5, 3}), 0, 1)}, .run = run, .expect = naive_log_softmax});
  add({.name = "misaligned", .inputs = {misaligned({3, 16})}, .run = run, .expect = naive_log_softmax});
  add({.name = "no_columns", .inputs = {randn({2, 0})}, .run = run, .throws = "non-empty axis"});
  add({.name = "vocabulary", .inputs = {randn({2048, 8192})}, .run = run, .bench = true});
}

namespace {

/// Of rows, one number each.
Values naive_logsumexp(const std::vector<Tensor>& x) {
  const Values all = x[0].to_vector(), logarithms = naive_log_softmax(x);
  Values y;
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(x[0].dim(-1))) y.push_back(all[i] - logarithms[i]);
  return y;
}

}  // namespace

OP_CASES(logsumexp) {
  for (const int axis : {0, 1, -2, 2})
    for (const bool keep : {false, true}) {
      const std::string name =
          std::string("axis_") + (axis < 0 ? "from_end_" : "") + std::to_string(std::abs(axis)) + (keep ? "_kept" : "");
      const auto expect = [=](const std::vector<Tensor>& x) {
        const Tensor turned = x[0].transpose(axis, -1).contiguous();
        return tensor_of(naive_logsumexp({turned}), turned.shape().with(2, 1), DType::f64).transpose(axis, -1).to_vector();
      };
      add({.name = name,
           .inputs = {randn({3, 5, 4})},
           .run = [=](const auto& x) { return logsumexp(x[0], axis, keep); },
           .expect = expect});
      add({.name = name + "_of_a_tensor",
           .inputs = {transposed(randn({3, 5, 4}), 0, 1)},
           .run = [=](const auto& x) { return Var(logsumexp(x[0].value(), axis, keep)); },
           .expect = expect,
           .gradient = false});
    }
  const auto run = [](const std::vector<Var>& x) { return logsumexp(x[0]); };
  add({.name = "odd_rows", .inputs = {randn({2, 3, 37})}, .run = run, .expect = naive_logsumexp});
  add({.name = "vector", .inputs = {randn({70})}, .run = run, .expect = naive_logsumexp});
  add({.name = "long_row", .inputs = {randn({2, 9000})}, .run = run, .expect = naive_logsumexp, .gradient = false});
  add({.name = "one_column", .inputs = {randn({3, 1})}, .run = run, .expect = naive_logsumexp});
  add({.name = "no_rows", .inputs = {randn({0, 5})}, .run = run, .expect = naive_logsumexp});
  add({.name = "all_equal", .inputs = {constant({2, 9}, -1e4)}, .run = run, .expect = naive_logsumexp});
  // Central differences of values near 1e4 lose ten digits of sixteen.
  add({.name = "large", .inputs = {values({2, 3}, kLarge)}, .run = run, .expect = naive_logsumexp, .tolerance_scale = 10});
  add({.name = "misaligned", .inputs = {misaligned({3, 16})}, .run = run, .expect = naive_logsumexp});
  add({.name = "infinite",
       .inputs = {values({5, 2}, {-INFINITY, -INFINITY, -INFINITY, 3, INFINITY, 1, NAN, INFINITY, -INFINITY, NAN})},
       .run = run,
       .expect =
           [](const auto&) {
             return Values{-INFINITY, 3, INFINITY, NAN, NAN};
           },
       .gradient = false});
  add({.name = "no_columns", .inputs = {randn({2, 0})}, .run = run, .throws = "logsumexp: needs a non-empty axis"});
  add({.name = "scalar", .inputs = {randn({})}, .run = run, .throws = "logsumexp: needs a non-empty axis"});
  add({.name = "no_axis",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return logsumexp(x[0], 2); },
       .throws = "needs an axis in"});
  add({.name = "vocabulary", .inputs = {randn({2048, 8192})}, .run = run, .bench = true});
}

OP_CASES(logsumexp_backward) {
  add({.name = "infinite",  // no NaN where nothing but -inf is summed
       .inputs = {values({3, 2}, {-INFINITY, -INFINITY, -INFINITY, 3, 1, 1}), values({3, 1}, {2, 2, 2})},
       .run = [](const auto& x) { return Var(logsumexp_backward(x[0].value(), x[1].value())); },
       .expect = [](const auto&) { return Values{0, 0, 0, 2, 1, 1}; },
       .gradient = false});
}
