#include <algorithm>
#include <limits>

#include "core/ops/argmax.h"
#include "core/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values naive_argmax(const std::vector<Tensor>& x) {
  const Values from = x[0].to_vector();
  const int64_t n = x[0].dim(-1);
  Values y;
  for (auto row = from.begin(); row != from.end(); row += n) y.push_back(static_cast<double>(std::max_element(row, row + n) - row));
  return y;
}

}  // namespace

OP_CASES(argmax) {
  const auto run = [](const std::vector<Var>& x) { return Var(argmax(x[0].value())); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  add({.name = "small", .inputs = {randn({4, 7})}, .run = run, .expect = naive_argmax, .gradient = false});
  add({.name = "deep", .inputs = {randn({2, 3, 67})}, .run = run, .expect = naive_argmax, .gradient = false});
  add({.name = "one_column", .inputs = {randn({3, 1})}, .run = run, .expect = naive_argmax, .gradient = false});
  add({.name = "no_rows", .inputs = {randn({0, 5})}, .run = run, .expect = naive_argmax, .gradient = false});
  add({.name = "first_of_equals",
       .inputs = {values({2, 3}, {1, 2, 2, -1, -1, -1})},
       .run = run,
       .expect = naive_argmax,
       .gradient = false});
  add({.name = "view", .inputs = {transposed(randn({5, 3}), 0, 1)}, .run = run, .expect = naive_argmax, .gradient = false});
  add({.name = "not_a_number",
       .inputs = {values({1, 3}, {1, nan, 2})},
       .run = run,
       .expect = [](const auto&) { return Values{0}; },
       .gradient = false});
  for (const int axis : {0, 1, -1})
    add({.name = "axis_" + std::to_string(axis + 3),
         .inputs = {transposed(randn({4, 5, 3}), 0, 2)},
         .run = [=](const auto& x) { return Var(argmax(x[0].value(), axis)); },
         .expect =
             [=](const auto& x) {
               const int last = (axis + 3) % 3;
               return naive_argmax({last == 0   ? x[0].permute({1, 2, 0}).contiguous()
                                    : last == 1 ? x[0].permute({0, 2, 1}).contiguous()
                                                : x[0]});
             },
         .gradient = false});
  add({.name = "no_axis",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return Var(argmax(x[0].value(), 2)); },
       .throws = "needs an axis in"});
  add({.name = "no_columns", .inputs = {randn({2, 0})}, .run = run, .throws = "non-empty axis"});
  add({.name = "vocabulary", .inputs = {randn({2048, 8192})}, .run = run, .gradient = false, .bench = true});
}

OP_CASES(argmin) {
  const auto run = [](const std::vector<Var>& x) { return Var(argmin(x[0].value(), 0)); };
  add({.name = "columns",
       .inputs = {randn({7, 4})},
       .run = run,
       .expect = [](const auto& x) { return naive_argmax({neg(x[0].transpose(0, 1).contiguous())}); },
       .gradient = false});
  add({.name = "first_of_equals",
       .inputs = {values({3, 2}, {1, -1, 0, -1, 0, -1})},
       .run = run,
       .expect =
           [](const auto&) {
             return Values{1, 0};
           },
       .gradient = false});
  add({.name = "no_rows", .inputs = {randn({0, 2})}, .run = run, .throws = "argmin: needs a non-empty axis"});
}
