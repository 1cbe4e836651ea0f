#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "core/ops/copy.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values unchanged(const std::vector<Tensor>& x) { return x[0].to_vector(); }

}  // namespace

OP_CASES(permute) {
  const auto run = [](const auto& x) { return permute(x[0], {2, 0, -2}); };
  const auto with = [&](const char* name, InputSpec x, const Shape& y) {
    add({.name = name, .inputs = {std::move(x)}, .run = run, .expect = taken(y, [](const Place& p) { return Place{p[1], p[2], p[0]}; })});
  };
  with("three_axes", randn({2, 3, 5}), {5, 2, 3});
  with("ones", randn({1, 1, 1}), {1, 1, 1});
  with("nothing", randn({2, 0, 5}), {5, 2, 0});
  with("of_view", transposed(randn({4, 3, 2}), 0, 2), {4, 2, 3});
  with("misaligned", misaligned({2, 3, 5}), {5, 2, 3});
  add({.name = "scalar", .inputs = {randn({})}, .run = [](const auto& x) { return permute(x[0], {}); }, .expect = unchanged});
  add({.name = "two_axes", .inputs = {randn({2, 3})}, .run = run, .throws = "permute: needs each of 2 axes once, got 3 axes"});
  add({.name = "twice",
       .inputs = {randn({2, 3})},
       .run =
           [](const auto& x) {
             return permute(x[0], {1, -1});
           },
       .throws = "needs each of 2 axes once, got axis 1 twice"});
  add({.name = "outside",
       .inputs = {randn({2, 3})},
       .run =
           [](const auto& x) {
             return permute(x[0], {0, 2});
           },
       .throws = "needs an axis in [-2, 2), got 2"});
}

OP_CASES(squeeze) {
  const auto with = [&](const char* name, InputSpec x, std::function<Var(const Var&)> f, const Shape& y) {
    add({.name = name,
         .inputs = {std::move(x)},
         .run =
             [f, y](const auto& x) {
               const Var result = f(x[0]);
               require(result.shape() == y, "test: needs shape ", y, ", got ", result.shape());
               return result;
             },
         .expect = unchanged});
  };
  with("one_axis", randn({2, 1, 3, 1}), [](const Var& x) { return squeeze(x, 1); }, {2, 3, 1});
  with("last_axis", randn({2, 1, 3, 1}), [](const Var& x) { return squeeze(x, -1); }, {2, 1, 3});
  with("all", randn({1, 2, 1, 3, 1}), [](const Var& x) { return squeeze(x); }, {2, 3});
  with("of_view", transposed(randn({3, 1, 2}), 0, 2), [](const Var& x) { return squeeze(x, 1); }, {2, 3});
  with("nothing", randn({1, 0}), [](const Var& x) { return squeeze(x); }, {0});
  with("axis_more", randn({2, 3}), [](const Var& x) { return unsqueeze(x, 1); }, {2, 1, 3});
  with("axis_in_front", transposed(randn({2, 3}), 0, 1), [](const Var& x) { return unsqueeze(x, -3); }, {1, 3, 2});
  with("axis_behind", sliced(randn({2, 3}), 1, 1, 3), [](const Var& x) { return unsqueeze(x, -1); }, {2, 2, 1});
  with("axis_of_scalar", randn({}), [](const Var& x) { return unsqueeze(x, 0); }, {1});
  with("flat", randn({2, 3, 4}), [](const Var& x) { return flatten(x); }, {24});
  with("flat_end", randn({2, 3, 4}), [](const Var& x) { return flatten(x, 1); }, {2, 12});
  with("flat_begin_of_view", transposed(randn({2, 3, 4}), 0, 1), [](const Var& x) { return flatten(x, 0, -2); }, {6, 4});
  add({.name = "longer_axis",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return squeeze(x[0], 1); },
       .throws = "squeeze: needs an axis of extent 1, got axis 1 of [2, 3]"});
  add({.name = "ninth_axis",
       .inputs = {randn({1, 1, 1, 1, 1, 1, 1, 1})},
       .run = [](const auto& x) { return unsqueeze(x[0], 0); },
       .throws = "at most 8 axes"});
  add({.name = "flat_backwards",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return flatten(x[0], 1, 0); },
       .throws = "flatten: needs a first axis that is not behind the last"});
}

OP_CASES(select) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, int axis, int64_t index, auto from) {
    add({.name = name,
         .inputs = {std::move(x)},
         .run = [=](const auto& x) { return select(x[0], axis, index); },
         .expect = taken(y, from)});
  };
  with("row", randn({3, 5}), {5}, 0, 1, [](const Place& p) { return Place{1, p[0]}; });
  with("last_column", randn({3, 5}), {3}, -1, -1, [](const Place& p) { return Place{p[0], 4}; });
  with("middle_of_view", transposed(randn({4, 3, 2}), 0, 2), {2, 4}, 1, 2, [](const Place& p) { return Place{p[0], 2, p[1]}; });
  with("of_one", randn({1}), {}, 0, 0, [](const Place&) { return Place{0}; });
  add({.name = "in_brackets",
       .inputs = {randn({3, 5, 2})},
       .run = [](const auto& x) { return x[0][-1][1]; },
       .expect = taken({2}, [](const Place& p) {
         return Place{2, 1, p[0]};
       })});
  add({.name = "outside",
       .inputs = {randn({3, 5})},
       .run = [](const auto& x) { return x[0][3]; },
       .throws = "select: needs an index in [-3, 3), got 3"});
  add({.name = "of_nothing",
       .inputs = {randn({0, 5})},
       .run = [](const auto& x) { return select(x[0], 0, 0); },
       .throws = "needs an index in [0, 0), got 0"});
}

OP_CASES(slice_by_step) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, int64_t begin, int64_t end, int64_t step, int64_t first) {
    add({.name = name,
         .inputs = {std::move(x)},
         .run = [=](const auto& x) { return slice(x[0], 1, begin, end, step); },
         .expect = taken(y, [=](const Place& p) {
           return Place{p[0], first + p[1] * step};
         })});
  };
  with("every_second", randn({3, 7}), {3, 4}, 0, kEnd, 2, 0);
  with("every_third_of_view", transposed(randn({7, 3}), 0, 1), {3, 2}, 1, 6, 3, 1);
  with("longer_than_axis", randn({2, 5}), {2, 1}, 1, kEnd, INT64_MAX, 1);
  with("from_the_end", randn({2, 5}), {2, 2}, -4, -1, 2, 1);
  with("last_two", randn({2, 5}), {2, 2}, -2, kEnd, 1, 3);
  with("nothing", randn({2, 5}), {2, 0}, 3, 3, 2, 3);
  const auto bad = [&](const char* name, int64_t begin, int64_t end, int64_t step, const char* throws) {
    add({.name = name,
         .inputs = {randn({2, 5})},
         .run = [=](const auto& x) { return slice(x[0], 1, begin, end, step); },
         .throws = throws});
  };
  bad("no_step", 0, 5, 0, "needs a step of 1 or more, got 0; flip()");
  bad("before_the_first", -6, 5, 2, "needs 0 <= begin <= end <= 5");
  bad("backwards", -1, -2, 1, "got [-1, -2)");
}

OP_CASES(expand) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, auto from) {
    add({.name = name, .inputs = {std::move(x)}, .run = [=](const auto& x) { return expand(x[0], y); }, .expect = taken(y, from)});
  };
  with("column", randn({3, 1}), {3, 5}, [](const Place& p) { return Place{p[0], 0}; });
  with("row", randn({5}), {3, 5}, [](const Place& p) { return Place{p[1]}; });
  with("scalar", randn({}), {2, 3}, [](const Place&) { return Place{}; });
  with("middle_of_view", transposed(randn({4, 1, 2}), 0, 2), {3, 2, 5, 4}, [](const Place& p) { return Place{p[1], 0, p[3]}; });
  with("to_nothing", randn({1, 3}), {0, 3}, [](const Place& p) { return p; });
  with("misaligned", misaligned({1, 16}), {4, 16}, [](const Place& p) { return Place{0, p[1]}; });
  add({.name = "mismatch", .inputs = {randn({2, 3})}, .run = [](const auto& x) { return expand(x[0], {2, 6}); }, .throws = "broadcast"});
  add({.name = "fewer_axes",
       .inputs = {randn({1, 3})},
       .run = [](const auto& x) { return expand(x[0], {3}); },
       .throws = "expand: needs a shape that [1, 3] broadcasts to, got [3]"});
  add({.name = "as_target",
       .inputs = {randn({2, 1}), randn({2, 3})},
       .run =
           [](const auto& x) {
             copy(x[1].value(), x[0].value().expand({2, 3}));
             return x[0];
           },
       .throws = "copy: needs a target whose elements are all there"});
}

// Ops that read strides, over views that repeat elements.
OP_CASES(of_expanded) {
  const auto wide = [](const Var& x) { return expand(unsqueeze(x, 0), {3, x.dim(0), x.dim(1)}); };
  add({.name = "sum",
       .inputs = {randn({2, 1}), randn({2, 5})},
       .run =
           [](const auto& x) {
             return sluice::add(expand(x[0], {2, 5}), x[1]);
           },
       .expect =
           [](const auto& x) {
             Values y = x[1].to_vector();
             for (size_t i = 0; i < y.size(); ++i) y[i] += x[0].to_vector()[i / 5];
             return y;
           }});
  add({.name = "product",
       .inputs = {randn({4, 2}), randn({3, 2, 5})},
       .run = [=](const auto& x) { return matmul(wide(x[0]), x[1]); },
       .expect =
           [](const auto& x) {
             const Values a = x[0].to_vector(), b = x[1].to_vector();
             Values y;
             each_place({3, 4, 5}, [&](const Place& p) {
               y.push_back(a[p[1] * 2] * b[p[0] * 10 + p[2]] + a[p[1] * 2 + 1] * b[p[0] * 10 + 5 + p[2]]);
             });
             return y;
           },
       .gradient = false});  // matmul's, which defers on its own terms
  add({.name = "joined",
       .inputs = {randn({2, 3})},
       .run = [=](const auto& x) { return flatten(wide(x[0])); },
       .expect = taken({3, 2, 3}, [](const Place& p) {
         return Place{p[1], p[2]};
       })});
}
