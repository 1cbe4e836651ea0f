#include "autograd/ops/cast.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

OP_CASES(concat) {
  const auto columns = [](const auto& x) { return concat(x, 1); };
  add({.name = "rows",
       .inputs = {randn({2, 3}), randn({1, 3}), randn({0, 3})},
       .run = [](const auto& x) { return concat(x, 0); },
       .expect =
           [](const auto& x) {
             Values y = x[0].to_vector();
             const Values more = x[1].to_vector();
             y.insert(y.end(), more.begin(), more.end());
             return y;
           }});
  add({.name = "columns", .inputs = {randn({2, 2}), transposed(randn({1, 2}), 0, 1)}, .run = columns, .expect = [](const auto& x) {
         const Values a = x[0].to_vector(), b = x[1].to_vector();
         return Values{a[0], a[1], b[0], a[2], a[3], b[1]};
       }});
  add({.name = "mismatch", .inputs = {randn({2, 3}), randn({3, 3})}, .run = columns, .throws = "differ in axis 1 only"});
  add({.name = "no_parts", .inputs = {}, .run = columns, .throws = "at least one part"});
}

OP_CASES(split) {
  const auto swap_halves = [](const auto& x) {
    const auto parts = split(x[0], {2, 3}, 1);
    return concat({parts[1], parts[0]}, 1);
  };
  add({.name = "columns", .inputs = {randn({2, 5})}, .run = swap_halves, .expect = [](const auto& x) {
         const Values a = x[0].to_vector();
         return Values{a[2], a[3], a[4], a[0], a[1], a[7], a[8], a[9], a[5], a[6]};
       }});
  add({.name = "wrong_sizes", .inputs = {randn({2, 6})}, .run = swap_halves, .throws = "sizes that add up to 6"});
}

OP_CASES(cast) {
  add({.name = "to_f64_and_back",
       .inputs = {randn({3, 5})},
       .run = [](const auto& x) { return cast(square(cast(x[0], DType::f64)), x[0].value().dtype()); },
       .expect =
           [](const auto& x) {
             Values y = x[0].to_vector();
             for (double& value : y) value *= value;
             return y;
           }});
}
