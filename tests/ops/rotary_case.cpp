#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/rotary.h"
#include "core/ops/concat.h"
#include "core/ops/sinusoids.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

auto turned(int64_t heads, int64_t first, double base = 10000) {
  return [=](const std::vector<Var>& vars) {
    const Tensor& x = vars[0].value();
    return rotary(vars[0], heads, sinusoids({first, x.dim(1), x.dim(3), base}, compute_dtype(x.dtype()), x.device_ptr()));
  };
}

/// As turned(), by a table that is the left half of a wider one.
Var turned_by_a_view(const std::vector<Var>& vars) {
  const Tensor& x = vars[0].value();
  const Tensor table = sinusoids({0, x.dim(1), x.dim(3)}, compute_dtype(x.dtype()), x.device_ptr());
  return rotary(vars[0], x.dim(2), concat({table, table}, 1).slice(1, 0, x.dim(3)));
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

/// Adds a table of all of x's columns to it.
auto with_sinusoids(const SinusoidTable& table) {
  return [=](const std::vector<Var>& x) { return add(x[0], Var(sinusoids(table, x[0].value().dtype(), x[0].value().device_ptr()))); };
}

auto sinusoid_reference(const SinusoidTable& table) {
  return [=](const std::vector<Tensor>& x) {
    Values y = x[0].to_vector();
    const int64_t half = (table.width + 1) / 2;
    for (int64_t t = 0; t < table.count; ++t)
      for (int64_t i = 0; i < table.width; ++i) {
        const double angle =
            static_cast<double>(table.first + t) / std::pow(table.base, static_cast<double>(i % half) / static_cast<double>(half));
        y[t * table.width + i] += i < half ? std::sin(angle) : std::cos(angle);
      }
    return y;
  };
}

OP_CASES(sinusoids) {
  const auto check = [&](const char* name, const SinusoidTable& table) {
    add({.name = name, .inputs = {randn({table.count, table.width})}, .run = with_sinusoids(table), .expect = sinusoid_reference(table)});
  };
  check("even", {.count = 5, .width = 8});
  check("odd", {.count = 4, .width = 7});
  check("one_column", {.count = 3, .width = 1});
  check("from_a_later_position", {.first = 500, .count = 2, .width = 6, .base = 100});
  check("no_positions", {.count = 0, .width = 4});
  check("many", {.count = 300, .width = 34});
  add({.name = "negative_position",
       .inputs = {randn({1, 2})},
       .run = with_sinusoids({.first = -1, .count = 1, .width = 2}),
       .throws = "needs positions from 0"});
}

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
  add({.name = "table_that_is_a_view", .inputs = {randn({2, 3, 2, 6})}, .run = turned_by_a_view, .expect = reference(2, 0)});
  add({.name = "odd_width", .inputs = {randn({1, 2, 2, 3})}, .run = turned(1, 0), .throws = "even N, got [1, 2, 2, 3]"});
  add({.name = "too_many_heads", .inputs = {randn({1, 2, 2, 4})}, .run = turned(3, 0), .throws = "at most 2 rotated heads"});
  add({.name = "gpt", .inputs = {randn({8, 256, 18, 64})}, .run = turned(12, 0), .bench = true});
}
