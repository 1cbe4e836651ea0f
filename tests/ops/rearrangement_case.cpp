// Copies of all elements in another order or number: pad, flip, roll, repeat.
#include "autograd/ops/flip.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/repeat.h"
#include "autograd/ops/roll.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

OP_CASES(pad) {
  const auto run = [](const auto& x) { return pad(x[0], {{1, 0}, {2, 3}}, -1.5); };
  const auto expect = [](const auto& tensors) {
    const Tensor& x = tensors[0];
    const Values from = x.to_vector();
    Values y;
    each_place({x.dim(0) + 1, x.dim(1) + 5}, [&](const Place& p) {
      const bool inside = p[0] >= 1 && p[1] >= 2 && p[1] < 2 + x.dim(1);
      y.push_back(inside ? from[(p[0] - 1) * x.dim(1) + p[1] - 2] : -1.5);
    });
    return y;
  };
  add({.name = "both_axes", .inputs = {randn({3, 5})}, .run = run, .expect = expect});
  add({.name = "one", .inputs = {randn({1, 1})}, .run = run, .expect = expect});
  add({.name = "nothing", .inputs = {randn({2, 0})}, .run = run, .expect = expect});
  add({.name = "view", .inputs = {transposed(randn({5, 3}), 0, 1)}, .run = run, .expect = expect});
  add({.name = "misaligned", .inputs = {misaligned({3, 5})}, .run = run, .expect = expect});
  add({.name = "scalar",
       .inputs = {randn({})},
       .run = [](const auto& x) { return pad(x[0], {}); },
       .expect = [](const auto& x) { return x[0].to_vector(); }});
  add({.name = "one_pair",
       .inputs = {randn({2, 3})},
       .run =
           [](const auto& x) {
             return pad(x[0], {{1, 1}});
           },
       .throws = "pad: needs a pair (before, after) for each axis of [2, 3], got 1 pairs"});
  add({.name = "negative",
       .inputs = {randn({2, 3})},
       .run =
           [](const auto& x) {
             return pad(x[0], {{0, 0}, {1, -1}});
           },
       .throws = "needs widths of 0 or more, got (1, -1) for axis 1"});
  add({.name = "too_wide",
       .inputs = {randn({2})},
       .run =
           [](const auto& x) {
             return pad(x[0], {{INT64_MAX, INT64_MAX}});
           },
       .throws = "pad: the extent of axis 0 does not fit"});
  add({.name = "images",
       .inputs = {randn({8, 56, 56, 64})},
       .run =
           [](const auto& x) {
             return pad(x[0], {{0, 0}, {1, 1}, {1, 1}, {0, 0}});
           },
       .bench = true});
}

OP_CASES(flip) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, std::vector<int> axes, auto from) {
    add({.name = name, .inputs = {std::move(x)}, .run = [=](const auto& x) { return flip(x[0], axes); }, .expect = taken(y, from)});
  };
  with("columns", randn({3, 5}), {3, 5}, {-1}, [](const Place& p) { return Place{p[0], 4 - p[1]}; });
  with("rows", misaligned({3, 5}), {3, 5}, {0}, [](const Place& p) { return Place{2 - p[0], p[1]}; });
  with("both", randn({3, 5}), {3, 5}, {0, 1}, [](const Place& p) { return Place{2 - p[0], 4 - p[1]}; });
  with("twice", randn({3, 5}), {3, 5}, {1, 1}, [](const Place& p) { return p; });
  with("middle_of_view", transposed(randn({2, 3, 4}), 0, 2), {4, 3, 2}, {1}, [](const Place& p) { return Place{p[0], 2 - p[1], p[2]}; });
  with("one", randn({1}), {1}, {0}, [](const Place& p) { return p; });
  with("nothing", randn({2, 0}), {2, 0}, {0, 1}, [](const Place& p) { return p; });
  add({.name = "outside",
       .inputs = {randn({3})},
       .run = [](const auto& x) { return flip(x[0], {1}); },
       .throws = "flip: needs an axis in [-1, 1), got 1"});
  add({.name = "tokens", .inputs = {randn({2048, 1536})}, .run = [](const auto& x) { return flip(x[0], {1}); }, .bench = true});
}

OP_CASES(roll) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, std::vector<int64_t> shifts, std::vector<int> axes, auto from) {
    add({.name = name, .inputs = {std::move(x)}, .run = [=](const auto& x) { return roll(x[0], shifts, axes); }, .expect = taken(y, from)});
  };
  with("columns", randn({3, 5}), {3, 5}, {2}, {-1}, [](const Place& p) { return Place{p[0], (p[1] + 3) % 5}; });
  with("backwards", misaligned({3, 5}), {3, 5}, {-1}, {0}, [](const Place& p) { return Place{(p[0] + 1) % 3, p[1]}; });
  with("both", randn({3, 5}), {3, 5}, {1, -2}, {0, 1}, [](const Place& p) { return Place{(p[0] + 2) % 3, (p[1] + 2) % 5}; });
  with("far", randn({3, 5}), {3, 5}, {-11}, {1}, [](const Place& p) { return Place{p[0], (p[1] + 1) % 5}; });
  with("farthest", randn({3}), {3}, {INT64_MIN}, {0}, [](const Place& p) { return Place{(p[0] + 2) % 3}; });
  with("twice", randn({3, 5}), {3, 5}, {1, 3}, {1, -1}, [](const Place& p) { return Place{p[0], (p[1] + 1) % 5}; });
  with("around", randn({3, 5}), {3, 5}, {5}, {1}, [](const Place& p) { return p; });
  with("no_axes", randn({3, 5}), {3, 5}, {}, {}, [](const Place& p) { return p; });
  with("middle_of_view", transposed(randn({2, 3, 4}), 0, 2), {4, 3, 2}, {1}, {1}, [](const Place& p) {
    return Place{p[0], (p[1] + 2) % 3, p[2]};
  });
  with("windows", randn({2, 4, 6, 3}), {2, 4, 6, 3}, {-2, -3}, {1, 2}, [](const Place& p) {
    return Place{p[0], (p[1] + 2) % 4, (p[2] + 3) % 6, p[3]};
  });
  with("nothing", randn({2, 0}), {2, 0}, {1, 1}, {0, 1}, [](const Place& p) { return p; });
  with("scalar", randn({}), {}, {}, {}, [](const Place& p) { return p; });
  add({.name = "outside",
       .inputs = {randn({3})},
       .run = [](const auto& x) { return roll(x[0], {1}, {1}); },
       .throws = "roll: needs an axis in [-1, 1), got 1"});
  add({.name = "too_few_shifts",
       .inputs = {randn({3, 2})},
       .run =
           [](const auto& x) {
             return roll(x[0], {1}, {0, 1});
           },
       .throws = "roll: needs a shift for each axis, got 1 shifts and 2 axes; reshape x to one axis"});
  add({.name = "swin",
       .inputs = {randn({8, 56, 56, 96})},
       .run =
           [](const auto& x) {
             return roll(x[0], {-3, -3}, {1, 2});
           },
       .bench = true});
}

OP_CASES(flip_items) {
  const auto run = [](const auto& x) { return flip_items(x[0], x[1].value()); };
  const auto with = [&](const char* name, InputSpec x, std::vector<int64_t> counts, const Shape& y) {
    add({.name = name,
         .inputs = {std::move(x), lengths({counts.begin(), counts.end()})},
         .run = run,
         .expect = taken(y, [=](const Place& p) {
           Place from = p;
           if (p[1] < counts[p[0]]) from[1] = counts[p[0]] - 1 - p[1];
           return from;
         })});
  };
  with("sequences", randn({4, 5, 3}), {3, 5, 0, 1}, {4, 5, 3});
  with("numbers", randn({2, 5}), {2, 4}, {2, 5});
  with("view", transposed(randn({2, 3, 4}), 0, 2), {1, 3, 2, 0}, {4, 3, 2});
  with("nothing", randn({2, 0, 3}), {0, 0}, {2, 0, 3});
  const auto refused = [&](const char* name, InputSpec x, std::vector<double> counts, const char* message) {
    add({.name = name, .inputs = {std::move(x), lengths(counts)}, .run = run, .throws = message});
  };
  refused("scalars", randn({3}), {1, 1, 1}, "flip_items: needs x [B, T, ...], got [3]");
  refused("other_lengths", randn({3, 2}), {1, 1}, "flip_items: needs lengths i32 [3], got");
  refused("too_long", randn({3, 2}), {1, 3, 1}, "in [0, 2), got 2");
}

OP_CASES(repeat) {
  const auto with = [&](const char* name, InputSpec x, const Shape& y, std::vector<int64_t> counts, auto from) {
    add({.name = name, .inputs = {std::move(x)}, .run = [=](const auto& x) { return repeat(x[0], counts); }, .expect = taken(y, from)});
  };
  with("columns", randn({3, 2}), {3, 6}, {1, 3}, [](const Place& p) { return Place{p[0], p[1] % 2}; });
  with("both", randn({3, 2}), {6, 4}, {2, 2}, [](const Place& p) { return Place{p[0] % 3, p[1] % 2}; });
  with("axis_in_front", transposed(randn({2, 3}), 0, 1), {2, 3, 6}, {2, 1, 3}, [](const Place& p) { return Place{p[1], p[2] % 2}; });
  with("once", randn({3}), {3}, {1}, [](const Place& p) { return p; });
  with("never", randn({3, 2}), {3, 0}, {1, 0}, [](const Place& p) { return p; });
  with("nothing", randn({0, 2}), {0, 6}, {4, 3}, [](const Place& p) { return p; });
  with("scalar", randn({}), {3}, {3}, [](const Place&) { return Place{}; });
  with("misaligned", misaligned({2, 8}), {4, 8}, {2, 1}, [](const Place& p) { return Place{p[0] % 2, p[1]}; });
  add({.name = "too_few",
       .inputs = {randn({2, 3})},
       .run = [](const auto& x) { return repeat(x[0], {2}); },
       .throws = "repeat: needs a count for each axis of [2, 3], got 1 counts"});
  add({.name = "negative",
       .inputs = {randn({2})},
       .run = [](const auto& x) { return repeat(x[0], {-1}); },
       .throws = "needs counts of 0 or more, got -1 for axis 0"});
  add({.name = "too_often",
       .inputs = {randn({2, 3})},
       .run =
           [](const auto& x) {
             return repeat(x[0], {INT64_MAX, 1});
           },
       .throws = "does not fit in 63 bits"});
  add({.name = "tokens", .inputs = {randn({256, 384})}, .run = [](const auto& x) { return repeat(x[0], {8, 1}); }, .bench = true});
}
