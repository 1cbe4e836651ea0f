#include <cmath>

#include "autograd/ops/rotary.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

auto turned(int64_t heads, int64_t first, double base = 10000) {
  return [=](const std::vector<Var>& x) { return rotary(x[0], heads, first, base); };
}

auto reference(int64_t rotated, int64_t first, double base = 10000) {
  return [=](const std::vector<Tensor>& x) {
    const Values from = x[0].to_vector();
    Values to = from;
    const int64_t tokens = x[0].dim(1), heads = x[0].dim(2), width = x[0].dim(3);
    for (int64_t row = 0; row < x[0].dim(0) * tokens; ++row)
      for (int64_t head = 0; head < rotated; ++head)
        for (int64_t i = 0; i < width / 2; ++i) {
          const double angle =
              static_cast<double>(first + row % tokens) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
          const int64_t a = (row * heads + head) * width + i, b = a + width / 2;
          to[a] = from[a] * std::cos(angle) - from[b] * std::sin(angle);
          to[b] = from[b] * std::cos(angle) + from[a] * std::sin(angle);
        }
    return to;
  };
}

}  // namespace

OP_CASES(rotary) {
  const auto check = [&](const char* name, InputSpec x, int64_t heads, int64_t first, double base) {
    add({.name = name, .inputs = {x}, .run = turned(heads, first, base), .expect = reference(heads, first, base)});
  };
  check("all_heads", randn({2, 3, 2, 6}), 2, 0, 10000);
  check("packed_leaves_values_alone", randn({2, 3, 6, 4}), 4, 0, 10000);
  check("from_a_later_position", randn({1, 2, 1, 8}), 1, 500, 1000);
  check("one_token", randn({2, 1, 2, 2}), 2, 7, 10000);
  check("no_heads", randn({1, 2, 2, 4}), 0, 0, 10000);
  check("no_samples", randn({0, 3, 2, 4}), 2, 0, 10000);
  check("no_width", randn({1, 3, 2, 0}), 2, 0, 10000);
  check("view", transposed(randn({2, 2, 3, 4}), 1, 2), 2, 0, 10000);
  add({.name = "odd_width", .inputs = {randn({1, 2, 2, 3})}, .run = turned(1, 0), .throws = "even N, got [1, 2, 2, 3]"});
  add({.name = "too_many_heads", .inputs = {randn({1, 2, 2, 4})}, .run = turned(3, 0), .throws = "at most 2 rotated heads"});
  add({.name = "gpt", .inputs = {randn({8, 256, 18, 64})}, .run = turned(12, 0), .bench = true});
}
