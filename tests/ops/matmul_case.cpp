#include "autograd/ops/matmul.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

auto product(bool transpose_a, bool transpose_b) {
  return [=](const std::vector<Var>& x) { return matmul(x[0], x[1], transpose_a, transpose_b); };
}

/// Plain loops; an operand of rank 2 serves every matrix of the other.
auto reference(bool transpose_a, bool transpose_b) {
  return [=](const std::vector<Tensor>& x) {
    const Tensor &a = x[0], &b = x[1];
    const int64_t m = a.dim(transpose_a ? -1 : -2), k = a.dim(transpose_a ? -2 : -1), n = b.dim(transpose_b ? -2 : -1);
    const int64_t matrices = (a.rank() > 2 ? a : b).shape().elements_before(-2);
    const Values from_a = a.to_vector(), from_b = b.to_vector();
    Values c(matrices * m * n);
    for (int64_t s = 0; s < matrices; ++s)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t p = 0; p < k; ++p)
            c[(s * m + i) * n + j] += from_a[(a.rank() > 2 ? s * m * k : 0) + (transpose_a ? p * m + i : i * k + p)] *
                                      from_b[(b.rank() > 2 ? s * k * n : 0) + (transpose_b ? j * k + p : p * n + j)];
    return c;
  };
}

/// The number of the matrix of x that a place of the result reads: NumPy's rule, from the last of the leading axes.
int64_t matrix_at(const Tensor& x, const Place& leading) {
  int64_t at = 0;
  for (int axis = 0; axis < x.rank() - 2; ++axis) {
    const int64_t index = leading[leading.size() - static_cast<size_t>(x.rank() - 2 - axis)];
    at = at * x.dim(axis) + (x.dim(axis) == 1 ? 0 : index);
  }
  return at;
}

/// Plain loops over operands that broadcast to `leading`; vectors come as a row and a column.
auto broadcast_reference(const Shape& leading, const Shape& a_matrices, const Shape& b_matrices) {
  return [=](const std::vector<Tensor>& x) {
    const Tensor a = x[0].reshape(a_matrices), b = x[1].reshape(b_matrices);
    const int64_t m = a.dim(-2), k = a.dim(-1), n = b.dim(-1);
    const Values from_a = a.to_vector(), from_b = b.to_vector();
    Values c;
    each_place(leading.appended(m).appended(n), [&](const Place& place) {
      const Place outer(place.begin(), place.end() - 2);
      const int64_t i = place[place.size() - 2], j = place.back();
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += from_a[(matrix_at(a, outer) * m + i) * k + p] * from_b[(matrix_at(b, outer) * k + p) * n + j];
      c.push_back(sum);
    });
    return c;
  };
}

/// c += a^T b, where c is 0.5 in the dtype of sums: f32 for bf16. Leading axes are summed.
Var add_to_sums(const std::vector<Var>& x) {
  const Tensor &a = x[0].value(), &b = x[1].value();
  const Tensor c = full({a.dim(-1), b.dim(-1)}, 0.5, compute_dtype(a.dtype()), a.device_ptr());
  matmul_into(a, b, c, true, false, 1);
  return Var(c);
}

Values sums_reference(const std::vector<Tensor>& x) {
  const Values parts = reference(true, false)(x);
  Values c(x[0].dim(-1) * x[1].dim(-1), 0.5);
  for (size_t i = 0; i < parts.size(); ++i) c[i % c.size()] += parts[i];
  return c;
}

/// The product of x by itself, into elements of its own from a row on.
auto into_rows_of(int64_t from) {
  return [from](const std::vector<Var>& vars) {
    const Tensor& x = vars[0].value();
    const int64_t n = x.dim(1);
    matmul_into(x.slice(0, 0, n), x.slice(0, 0, n), x.slice(0, from, from + n), false, false, 0);
    return Var(x.slice(0, from, from + n).clone());
  };
}

constexpr int64_t kGap = 3;  // elements between the rows of a result

/// a b, written over 0.5 into the first columns of rows that are kGap wider.
Var into_wider_rows(const std::vector<Var>& x) {
  const Tensor &a = x[0].value(), &b = x[1].value(), &batched = a.rank() > 2 ? a : b;
  const int64_t n = b.dim(-1);
  const Tensor c = full(batched.shape().with(-2, a.dim(-2)).with(-1, n + kGap), 0.5, a.dtype(), a.device_ptr());
  matmul_into(a, b, c.slice(-1, 0, n), false, false, 0);
  return Var(c);
}

Values wider_rows_reference(const std::vector<Tensor>& x) {
  const Values product = reference(false, false)(x);
  const int64_t n = x[1].dim(-1), rows = (x[0].rank() > 2 ? x[0] : x[1]).shape().elements_before(-2) * x[0].dim(-2);
  Values c(rows * (n + kGap), 0.5);
  for (int64_t i = 0; i < rows * n; ++i) c[i / n * (n + kGap) + i % n] = product[i];
  return c;
}

}  // namespace

OP_CASES(matmul) {
  const auto check = [&](const char* name, InputSpec a, InputSpec b, bool transpose_a, bool transpose_b) {
    add({.name = name, .inputs = {a, b}, .run = product(transpose_a, transpose_b), .expect = reference(transpose_a, transpose_b)});
  };
  const auto large = [&](const char* name, const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
    add({.name = name,
         .inputs = {randn(a), randn(b)},
         .run = product(transpose_a, transpose_b),
         .expect = reference(transpose_a, transpose_b),
         .gradient = false,
         .tolerance_scale = 2});
  };
  check("odd", randn({5, 7}), randn({7, 3}), false, false);
  check("odd_at", randn({7, 5}), randn({7, 3}), true, false);
  check("odd_bt", randn({5, 7}), randn({3, 7}), false, true);
  check("odd_at_bt", randn({7, 5}), randn({3, 7}), true, true);
  check("one", randn({1, 1}), randn({1, 1}), false, false);
  check("row_times_matrix", randn({1, 9}), randn({9, 4}), false, false);
  check("matrix_times_column", randn({4, 9}), randn({9, 1}), false, false);
  check("no_rows", randn({0, 4}), randn({4, 3}), false, false);
  check("no_terms", randn({2, 0}), randn({0, 3}), false, false);
  check("batched", randn({2, 3, 4, 5}), randn({2, 3, 5, 2}), false, false);
  check("batched_at", randn({3, 5, 4}), randn({3, 5, 2}), true, false);
  check("batched_bt", randn({3, 4, 5}), randn({3, 2, 5}), false, true);
  check("batched_at_bt", randn({3, 5, 4}), randn({3, 2, 5}), true, true);
  check("batched_times_single", randn({3, 4, 5}), randn({5, 2}), false, false);
  check("batched_at_times_single", randn({3, 5, 4}), randn({2, 5}), true, true);
  check("single_times_batched", randn({4, 5}), randn({3, 5, 2}), false, false);
  check("single_at_times_batched", randn({5, 4}), randn({3, 2, 5}), true, true);
  check("no_matrices", randn({0, 4, 5}), randn({5, 2}), false, false);
  check("transposed_views", transposed(randn({7, 5}), 0, 1), transposed(randn({3, 7}), 0, 1), false, false);
  check("sliced_views", sliced(randn({5, 9}), 1, 1, 8), sliced(randn({9, 3}), 0, 2, 9), false, false);
  check("heads_of_a_packed_tensor", transposed(randn({2, 4, 3, 5}), 1, 2), transposed(randn({2, 6, 3, 5}), 1, 2), false, true);
  check("no_unit_stride", transposed(sliced(randn({5, 2, 7}), 1, 0, 1), 0, 1), randn({7, 3}), false, false);
  const auto broadcast = [&](const char* name, InputSpec a, InputSpec b, const Shape& leading, const Shape& a_matrices,
                             const Shape& b_matrices) {
    add({.name = name, .inputs = {a, b}, .run = product(false, false), .expect = broadcast_reference(leading, a_matrices, b_matrices)});
  };
  broadcast("vector_times_matrix", randn({5}), randn({5, 3}), {}, {1, 5}, {5, 3});
  broadcast("matrix_times_vector", randn({4, 5}), randn({5}), {}, {4, 5}, {5, 1});
  broadcast("vector_times_vector", randn({33}), randn({33}), {}, {1, 33}, {33, 1});
  broadcast("vector_times_batched", randn({4}), randn({3, 4, 5}), {3}, {1, 4}, {3, 4, 5});
  broadcast("batched_times_vector", randn({2, 3, 4, 5}), randn({5}), {2, 3}, {2, 3, 4, 5}, {5, 1});
  broadcast("batched_times_vector_of_view", transposed(randn({2, 5, 4}), 1, 2), sliced(randn({9}), 0, 2, 7), {2}, {2, 4, 5}, {5, 1});
  broadcast("one_of_a_batch", randn({1, 4, 5}), randn({3, 5, 2}), {3}, {1, 4, 5}, {3, 5, 2});
  broadcast("fewer_leading_axes", randn({3, 4, 5}), randn({2, 3, 5, 2}), {2, 3}, {3, 4, 5}, {2, 3, 5, 2});
  broadcast("both_broadcast", randn({2, 1, 4, 5}), randn({3, 5, 2}), {2, 3}, {2, 1, 4, 5}, {3, 5, 2});
  broadcast("broadcast_to_nothing", randn({2, 1, 4, 5}), randn({0, 5, 2}), {2, 0}, {2, 1, 4, 5}, {0, 5, 2});
  const auto sums = [&](const char* name, const Shape& a, const Shape& b) {
    add({.name = name,
         .inputs = {randn(a), randn(b)},
         .run = add_to_sums,
         .expect = sums_reference,
         .gradient = false,
         .tolerance_scale = 2});
  };
  sums("added_to_sums", {7, 5}, {7, 3});
  sums("added_to_sums_over_leading_axes", {3, 7, 5}, {3, 7, 4});
  sums("parts_added_to_sums", {2, 40, 1100}, {2, 40, 33});
  const auto into_wider = [&](const char* name, InputSpec a, InputSpec b) {
    add({.name = name, .inputs = {a, b}, .run = into_wider_rows, .expect = wider_rows_reference, .gradient = false, .tolerance_scale = 2});
  };
  into_wider("wider_rows", randn({5, 7}), randn({7, 3}));
  into_wider("wider_rows_of_one_column", randn({5, 7}), randn({7, 1}));
  into_wider("wider_rows_without_terms", randn({2, 0}), randn({0, 3}));
  into_wider("wider_rows_of_one_tall_product", sliced(randn({2, 3, 9}), 2, 0, 5), randn({5, 4}));
  into_wider("wider_rows_of_a_batch", randn({2, 3, 4, 5}), randn({2, 3, 5, 2}));
  into_wider("wider_rows_in_parts", randn({1100, 40}), randn({40, 33}));
  into_wider("wider_columns_in_parts", randn({33, 40}), randn({40, 2100}));
  // Rows of the product would be written where later ones are still to be read.
  constexpr const char* kShared = "matmul_into: needs a target apart from what it reads, got two views, [3, 3] and [3, 3]";
  add({.name = "into_an_operand", .inputs = {randn({3, 3})}, .run = into_rows_of(0), .throws = kShared});
  add({.name = "into_a_part_of_an_operand", .inputs = {randn({5, 3})}, .run = into_rows_of(2), .throws = kShared});
  add({.name = "beside_the_operands",
       .inputs = {randn({6, 3})},
       .run = into_rows_of(3),
       .expect =
           [](const auto& x) {
             const Tensor square = x[0].slice(0, 0, 3);
             return reference(false, false)({square, square});
           },
       .gradient = false});
  large("tall_gradient", {128, 512}, {128, 64}, true, false);
  large("parts_of_rows", {1100, 40}, {40, 33}, false, false);
  large("parts_of_rows_at_bt", {40, 1100}, {33, 40}, true, true);
  large("parts_of_columns", {33, 40}, {40, 1100}, false, false);
  large("parts_of_columns_at_bt", {40, 33}, {1100, 40}, true, true);
  add({.name = "inner",
       .inputs = {randn({2, 3}), randn({4, 5})},
       .run = product(false, false),
       .throws = "equal inner extents, got [2, 3] and [4, 5]"});
  add({.name = "leading", .inputs = {randn({2, 3, 4}), randn({3, 4, 5})}, .run = product(false, false), .throws = "shapes that broadcast"});
  add({.name = "scalar", .inputs = {randn({}), randn({3, 4})}, .run = product(false, false), .throws = "needs vectors or matrices"});
  add({.name = "vector_at", .inputs = {randn({3}), randn({3, 4})}, .run = product(true, false), .throws = "needs matrices to transpose"});
  add({.name = "vectors_of_unequal_length",
       .inputs = {randn({3}), randn({4})},
       .run = product(false, false),
       .throws = "equal inner extents"});
  add({.name = "gpt_ffn_dw", .inputs = {randn({2048, 1536}), randn({2048, 384})}, .run = product(true, false), .bench = true});
  add({.name = "gpt_ffn_dx", .inputs = {randn({2048, 1536}), randn({1536, 384})}, .run = product(false, false), .bench = true});
  add({.name = "gpt_logits", .inputs = {randn({2048, 384}), randn({8192, 384})}, .run = product(false, true), .bench = true});
  add({.name = "heads_64x256x256", .inputs = {randn({48, 256, 64}), randn({48, 256, 64})}, .run = product(false, true), .bench = true});
}
