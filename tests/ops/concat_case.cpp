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

OP_CASES(stack) {
  const auto at = [](int axis) { return [axis](const auto& x) { return stack(x, axis); }; };
  const auto columns = [](const auto& x) {
    const Values a = x[0].to_vector(), b = x[1].to_vector();
    Values y;
    for (size_t i = 0; i < a.size(); ++i) y.insert(y.end(), {a[i], b[i]});
    return y;
  };
  const auto rows = [](const auto& x) {
    Values y = x[0].to_vector();
    const Values more = x[1].to_vector();
    y.insert(y.end(), more.begin(), more.end());
    return y;
  };
  add({.name = "rows", .inputs = {randn({2, 3}), transposed(randn({3, 2}), 0, 1)}, .run = at(0), .expect = rows});
  add({.name = "columns", .inputs = {randn({2, 3}), misaligned({2, 3})}, .run = at(-1), .expect = columns});
  add({.name = "scalars", .inputs = {randn({}), randn({})}, .run = at(0), .expect = rows});
  add({.name = "nothing", .inputs = {randn({0, 3}), randn({0, 3})}, .run = at(1), .expect = rows});
  add({.name = "mismatch", .inputs = {randn({1, 3}), randn({2, 3})}, .run = at(0), .throws = "stack: needs parts of one shape"});
  add({.name = "no_parts", .inputs = {}, .run = at(0), .throws = "stack: needs at least one part"});
  add({.name = "outside", .inputs = {randn({2}), randn({2})}, .run = at(2), .throws = "needs an axis in [-2, 2), got 2"});
  add({.name = "heads", .inputs = {randn({8, 256, 64}), randn({8, 256, 64}), randn({8, 256, 64})}, .run = at(2), .bench = true});
}

OP_CASES(chunk) {
  const auto joined = [](std::vector<Var> parts) {  // the last first
    return concat(std::vector<Var>(parts.rbegin(), parts.rend()), 1);
  };
  const auto columns = [](std::vector<int> order) {
    return [order](const auto& x) {
      const Values a = x[0].to_vector();
      Values y;
      for (int row = 0; row < 2; ++row)
        for (int column : order) y.push_back(a[row * 5 + column]);
      return y;
    };
  };
  add({.name = "two",
       .inputs = {randn({2, 5})},
       .run = [=](const auto& x) { return joined(chunk(x[0], 2, 1)); },
       .expect = columns({3, 4, 0, 1, 2})});
  add({.name = "more_than_there_are",
       .inputs = {transposed(randn({5, 2}), 0, 1)},
       .run = [=](const auto& x) { return joined(chunk(x[0], 9, -1)); },
       .expect = columns({4, 3, 2, 1, 0})});
  add({.name = "of_two_columns",
       .inputs = {randn({2, 5})},
       .run = [=](const auto& x) { return joined(split(x[0], 2, 1)); },
       .expect = columns({4, 2, 3, 0, 1})});
  add({.name = "nothing",
       .inputs = {randn({2, 0})},
       .run = [=](const auto& x) { return joined(chunk(x[0], 3, 1)); },
       .expect = columns({})});
  add({.name = "none",
       .inputs = {randn({2, 5})},
       .run = [=](const auto& x) { return joined(chunk(x[0], 0, 1)); },
       .throws = "chunk: needs 1 or more"});
  add({.name = "of_no_columns",
       .inputs = {randn({2, 5})},
       .run = [=](const auto& x) { return joined(split(x[0], 0, 1)); },
       .throws = "split: needs ranges of 1 or more, got 0"});
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
