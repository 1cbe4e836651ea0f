#include "autograd/ops/select.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values in_shape(const Tensor& x, const Shape& shape) { return broadcast_to(cast(x, DType::f64), shape).to_vector(); }

Values naive_where(const std::vector<Tensor>& x) {
  const Shape shape = broadcast_shape("test", x[0].shape(), broadcast_shape("test", x[1].shape(), x[2].shape()));
  const Values condition = in_shape(x[0], shape), a = in_shape(x[1], shape), b = in_shape(x[2], shape);
  Values y(condition.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = condition[i] != 0 ? a[i] : b[i];
  return y;
}

InputSpec mask(const Shape& shape) { return indices(shape, 3, DType::u8); }

/// The last two axes, with 0 outside a triangle.
std::function<Values(const std::vector<Tensor>&)> naive_triangle(bool lower, int64_t diagonal) {
  return [=](const std::vector<Tensor>& x) {
    const int64_t rows = x[0].dim(-2), columns = x[0].dim(-1);
    Values y = x[0].to_vector();
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
      const int64_t place = i % columns - i / columns % rows;
      if (lower ? place > diagonal : place < diagonal) y[i] = 0;
    }
    return y;
  };
}

}  // namespace

OP_CASES(where) {
  const auto run = [](const auto& x) { return where(x[0].value(), x[1], x[2]); };
  const auto with = [&](const std::string& name, InputSpec condition, InputSpec a, InputSpec b) {
    add({.name = name, .inputs = {std::move(condition), std::move(a), std::move(b)}, .run = run, .expect = naive_where});
  };
  with("same", mask({3, 5}), randn({3, 5}), randn({3, 5}));
  with("packs", mask({3, 32}), randn({3, 32}), randn({3, 32}));
  with("row_of_conditions", mask({32}), randn({3, 32}), randn({3, 32}));
  with("column_of_conditions", mask({3, 1}), randn({3, 32}), randn({1, 32}));
  with("all_broadcast", mask({4, 1, 1}), randn({3, 1}), randn({5}));
  with("scalar_first", mask({3, 32}), randn({}), randn({3, 32}));
  with("scalar_second", mask({3, 32}), randn({3, 32}), randn({}));
  with("scalars", mask({}), randn({}), randn({}));
  with("nothing", mask({0, 3}), randn({3}), randn({0, 3}));
  with("views", transposed(mask({3, 4}), 0, 1), transposed(randn({3, 4}), 0, 1), sliced(randn({4, 6}), 1, 1, 4));
  with("misaligned", sliced(mask({33}), 0, 1, 33), misaligned({32}), randn({32}));
  with("misaligned_condition", sliced(mask({33}), 0, 1, 33), randn({32}), randn({32}));
  for (DType dtype : {DType::i32, DType::i64, DType::u8})
    add({.name = std::string(name_of(dtype)),
         .inputs = {mask({3, 16}), indices({3, 16}, 200, dtype), indices({16}, 200, dtype)},
         .run = run,
         .expect = naive_where,
         .gradient = false});
  add({.name = "condition_of_numbers", .inputs = {randn({2}), randn({2}), randn({2})}, .run = run, .throws = "needs a condition of u8"});
  add({.name = "dtypes", .inputs = {mask({2}), randn({2}), indices({2}, 2)}, .run = run, .throws = "needs operands of one dtype"});
  add({.name = "mismatch", .inputs = {mask({2}), randn({3}), randn({3})}, .run = run, .throws = "needs shapes that broadcast"});
  add({.name = "scores_gpt", .inputs = {mask({1024, 1024}), randn({6, 1024, 1024}), randn({})}, .run = run, .bench = true});
}

OP_CASES(where_number) {
  const auto second = [](const auto& x) { return where(x[0].value(), x[1], 2.5); };
  const auto first = [](const auto& x) { return where(x[0].value(), 2.5, x[1]); };
  const auto expect = [](bool number_first) {
    return [=](const std::vector<Tensor>& x) {
      const Tensor number = full({}, 2.5, DType::f64);
      return naive_where(number_first ? std::vector{x[0], number, x[1]} : std::vector{x[0], x[1], number});
    };
  };
  add({.name = "first", .inputs = {mask({3, 5}), randn({5})}, .run = first, .expect = expect(true)});
  add({.name = "second", .inputs = {mask({3, 1}), randn({3, 5})}, .run = second, .expect = expect(false)});
  add({.name = "fraction", .inputs = {mask({2}), indices({2}, 3)}, .run = first, .throws = "needs numbers that i32 holds, got 2.5"});
}

OP_CASES(masked_fill) {
  const auto run = [](const auto& x) { return masked_fill(x[0], x[1].value(), -7); };
  const auto expect = [](const std::vector<Tensor>& x) { return naive_where({x[1], full({}, -7, DType::f64), x[0]}); };
  add({.name = "same", .inputs = {randn({3, 5}), mask({3, 5})}, .run = run, .expect = expect});
  add({.name = "row", .inputs = {randn({2, 3, 16}), mask({16})}, .run = run, .expect = expect});
  add({.name = "column", .inputs = {randn({3, 5}), mask({3, 1})}, .run = run, .expect = expect});
  add({.name = "nothing", .inputs = {randn({3, 0}), mask({3, 1})}, .run = run, .expect = expect});
  add({.name = "large_mask", .inputs = {randn({5}), mask({3, 5})}, .run = run, .throws = "needs a mask that broadcasts to [5]"});
}

OP_CASES(triangle) {
  const auto with = [&](const std::string& name, InputSpec x, int64_t diagonal) {
    add({.name = "lower_" + name,
         .inputs = {x},
         .run = [=](const auto& v) { return tril(v[0], diagonal); },
         .expect = naive_triangle(true, diagonal)});
    add({.name = "upper_" + name,
         .inputs = {x},
         .run = [=](const auto& v) { return triu(v[0], diagonal); },
         .expect = naive_triangle(false, diagonal)});
  };
  with("square", randn({4, 4}), 0);
  with("above", randn({2, 3, 5}), 1);
  with("below", randn({5, 3}), -2);
  with("outside", randn({2, 3}), 9);
  with("view", transposed(randn({4, 3}), 0, 1), 0);
  with("one", randn({1, 1}), 0);
  with("nothing", randn({0, 3}), 0);
  add({.name = "vector",
       .inputs = {randn({3})},
       .run = [](const auto& x) { return tril(x[0]); },
       .throws = "needs matrices in the last two axes"});
  add({.name = "scores_gpt", .inputs = {randn({6, 1024, 1024})}, .run = [](const auto& x) { return tril(x[0]); }, .bench = true});
}
