// Along an axis: sort, topk, cumsum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/ops/cumsum.h"
#include "autograd/ops/sort.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Calls f(line) for each line of x along an axis, which f changes, and returns those in x's order.
template <class F>
Values by_lines(const Tensor& x, int axis, int64_t length, const F& f) {
  const int along = normal_axis("test", axis, x.rank());
  const Values from = x.to_vector();
  const Shape shape = x.shape().with(along, length);
  Values y(shape.elements());
  each_place(shape.with(along, std::min<int64_t>(1, length)), [&](Place place) {
    Values line;
    for (place[along] = 0; place[along] < x.dim(along); ++place[along]) line.push_back(from[offset_of(x.shape(), place)]);
    f(line);
    for (place[along] = 0; place[along] < length; ++place[along]) y[offset_of(shape, place)] = line[place[along]];
  });
  return y;
}

/// The order of a line: NaN above all, equal ones as they come.
std::vector<size_t> order_of(const Values& line, bool descending) {
  std::vector<size_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  const auto below = [&](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return descending ? below(line[b], line[a]) : below(line[a], line[b]); });
  return order;
}

auto naive_sort(int axis, bool descending, bool wants_indices, int64_t k = -1) {
  return [=](const std::vector<Tensor>& x) {
    return by_lines(x[0], axis, k < 0 ? x[0].dim(axis) : k, [&](Values& line) {
      const std::vector<size_t> order = order_of(line, descending);
      const Values from = line;
      for (size_t i = 0; i < order.size(); ++i) line[i] = wants_indices ? static_cast<double>(order[i]) : from[order[i]];
    });
  };
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

/// Values and indices, up and down.
void sort_cases(const std::function<void(OpCase)>& add, const std::string& name, const InputSpec& x, int axis, bool gradient = true) {
  for (const bool descending : {false, true}) {
    const std::string of = name + (descending ? "_down" : "_up");
    add({.name = of,
         .inputs = {x},
         .run = [=](const auto& in) { return sort(in[0], axis, descending).values; },
         .expect = naive_sort(axis, descending, false),
         .gradient = gradient});
    add({.name = of + "_indices",
         .inputs = {x},
         .run = [=](const auto& in) { return Var(argsort(in[0].value(), axis, descending)); },
         .expect = naive_sort(axis, descending, true),
         .gradient = false});
  }
}

}  // namespace

OP_CASES(sort) {
  const auto with = [&](const char* name, InputSpec x, int axis, bool gradient = true) { sort_cases(add, name, x, axis, gradient); };
  with("last", randn({4, 37}), -1);
  with("first", randn({7, 3}), 0);
  with("middle", randn({2, 5, 3}), 1);
  with("one", randn({3, 1}), 1);
  with("no_rows", randn({0, 5}), 1);
  with("no_columns", randn({2, 0}), 1);
  with("view", transposed(randn({5, 3}), 0, 1), 1);
  with("misaligned", misaligned({3, 33}), 1);
  with("equals", values({2, 6}, {1, 0, 1, 0, -0.0, 1, 2, 2, 2, 2, 2, 2}), 1, false);
  with("not_a_number", values({1, 9}, {1, kNan, -kInfinity, 0, kInfinity, -1, kNan, -0.0, 3}), 1, false);
  with("integers", indices({3, 50}, 20), 1, false);
  with("wide_integers", indices({3, 50}, 20, DType::i64), 1, false);
  with("bytes", indices({3, 50}, 20, DType::u8), 1, false);
  with("longer_than_a_block", randn({2, 5000}), 1, false);
  with("longer_than_several_blocks", randn({2, 20000}), 1, false);
  with("long_wide_integers", indices({2, 20000}, 1000, DType::i64), 1, false);
  add({.name = "scalar",
       .inputs = {randn({})},
       .run = [](const auto& x) { return sort(x[0]).values; },
       .throws = "sort: needs an axis in"});
  add({.name = "vocabulary", .inputs = {randn({64, 8192})}, .run = [](const auto& x) { return sort(x[0]).values; }, .bench = true});
}

/// Rows of which a GPU does not sort all elements: of several dtypes, with many equal ones about the last that is taken, and NaN.
template <class With>
void selection_cases(const With& with_gradient) {
  const auto with = [&](const char* name, InputSpec x, int64_t k, int axis, bool largest) {
    with_gradient(name, std::move(x), k, axis, largest, false);
  };
  constexpr int64_t kLong = 3001;
  const auto repeating = [](std::vector<double> of) {
    std::vector<double> line(2 * kLong);
    for (size_t i = 0; i < line.size(); ++i) line[i] = of[i * i % of.size()];
    return values({2, kLong}, line);
  };
  with_gradient("of_long_rows", randn({2, kLong}), 50, 1, true, true);
  with("smallest_of_long_rows", randn({3, kLong}), 50, 1, false);
  with("most_of_long_rows", randn({2, 4096}), 1024, 1, true);
  with("one_of_long_rows", uniform({2, 8 * kLong}, 0.5, 0.75), 1, 1, true);
  with("of_misaligned_long_rows", misaligned({3, kLong}), 7, 1, false);
  with("of_equals", repeating({1}), 1000, 1, true);
  with("of_few_values", repeating({1, -0.0, 0, -1, kInfinity}), 700, 1, false);
  with("of_not_a_number", repeating({1, kNan, 0, -kInfinity, 2, 0}), 600, 1, true);
  with("last_of_not_a_number", repeating({kNan, 0, kNan, -3, kNan, kNan}), 1024, 1, false);
  with("of_long_integers", indices({3, kLong}, 1 << 20), 30, 1, true);
  with("of_long_bytes", indices({3, kLong}, 200, DType::u8), 30, 1, true);
  with("of_long_wide_integers", indices({2, kLong}, 1 << 20, DType::i64), 30, 1, true);
}

OP_CASES(topk) {
  const auto with = [&](const char* name, InputSpec x, int64_t k, int axis, bool largest, bool gradient = true) {
    add({.name = name,
         .inputs = {x},
         .run = [=](const auto& in) { return topk(in[0], k, axis, largest).values; },
         .expect = naive_sort(axis, largest, false, k),
         .gradient = gradient});
    add({.name = std::string(name) + "_indices",
         .inputs = {x},
         .run = [=](const auto& in) { return Var(topk(in[0].value(), k, axis, largest).indices); },
         .expect = naive_sort(axis, largest, true, k),
         .gradient = false});
  };
  with("largest", randn({4, 37}), 5, -1, true);
  with("smallest", randn({4, 37}), 5, -1, false);
  with("first_axis_of_view", transposed(randn({3, 9}), 0, 1), 2, 0, true);
  with("all", randn({2, 5}), 5, 1, true);
  with("none", randn({2, 5}), 0, 1, true);
  selection_cases(with);
  const auto bad = [&](const char* name, int64_t k) {
    add({.name = name,
         .inputs = {randn({2, 5})},
         .run = [=](const auto& x) { return topk(x[0], k).values; },
         .throws = "topk: needs a k from 0 to 5, the extent of axis 1"});
  };
  bad("too_many", 6);
  bad("negative", -1);
  add({.name = "vocabulary", .inputs = {randn({64, 8192})}, .run = [](const auto& x) { return topk(x[0], 50).values; }, .bench = true});
}

OP_CASES(cumsum) {
  const auto with_sums = [&](const char* name, DType dtype, std::vector<double> x, Values y) {
    add({.name = name,
         .inputs = {{[=] { return tensor_of(x, {static_cast<int64_t>(x.size())}, dtype); }}},
         .run = [](const auto& in) { return cumsum(in[0], 0); },
         .expect = [=](const auto&) { return y; },
         .gradient = false});
  };
  const auto with = [&](const std::string& name, InputSpec x, int axis, bool gradient = true) {
    const auto expect = [=](const auto& x) {
      return by_lines(x[0], axis, x[0].dim(axis), [](Values& line) { std::partial_sum(line.begin(), line.end(), line.begin()); });
    };
    add({.name = name,
         .inputs = {std::move(x)},
         .run = [=](const auto& in) { return cumsum(in[0], axis); },
         .expect = expect,
         .gradient = gradient,
         .tolerance_scale = 4});
  };
  with("last", randn({3, 37}), -1);
  with("first", randn({7, 5}), 0);
  with("middle", randn({2, 5, 3}), 1);
  with("several_chunks", randn({2, 150}), 1);
  with("several_chunks_of_columns", randn({150, 3}), 0);
  with("many_chunks", uniform({1, 9001}, 0, 1), 1, false);
  with("rows_of_whole_packs", randn({11, 4 * 1024 + 16}), 1, false);
  with("rows_of_no_whole_packs", randn({2, 8 * 1024 + 3}), 1, false);
  with("misaligned_rows_of_whole_packs", misaligned({3, 4112}), 1, false);
  with("longer_than_a_scanned_row", uniform({1, (1 << 18) + 5}, 0, 1), 1, false);
  with("many_columns", randn({70, 131}), 0, false);
  with("shared_by_threads", randn({300, 600}), 0, false);
  with("one", randn({3, 1}), 1);
  with("none", randn({3, 0}), 1);
  with("no_rows", randn({0, 3}), 1);
  with("view", transposed(randn({9, 4}), 0, 1), 1);
  with("misaligned", misaligned({3, 32}), 1);
  const auto run = [](const auto& x) { return cumsum(x[0], 0); };
  add({.name = "scalar", .inputs = {randn({})}, .run = run, .throws = "cumsum: needs an axis in"});
  add({.name = "bytes", .inputs = {indices({3}, 4, DType::u8)}, .run = run, .throws = "cumsum: needs floats, i32 or i64, got u8 [3]"});
  for (const DType dtype : {DType::i32, DType::i64}) {
    const auto named = [&](const char* name) { return std::string(name_of(dtype)) + name; };
    with(named("_last"), indices({3, 37}, 100, dtype), -1, false);
    with(named("_chunks"), indices({2, 150}, 100, dtype), 1, false);
    with(named("_chunks_of_columns"), indices({150, 3}, 100, dtype), 0, false);
  }
  with_sums("i32_wraps_around", DType::i32, {2147483647, 1, 5}, {2147483647, -2147483648.0, -2147483643});
  constexpr double kBeyondDoubles = 9007199254740992;  // 2^53, to which doubles cannot add 1
  with_sums("i64_is_exact", DType::i64, {kBeyondDoubles, 1, -kBeyondDoubles}, {kBeyondDoubles, kBeyondDoubles, 1});
  add({.name = "vocabulary", .inputs = {randn({512, 8192})}, .run = [](const auto& x) { return cumsum(x[0], 1); }, .bench = true});
}
