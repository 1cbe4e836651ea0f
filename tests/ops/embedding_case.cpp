#include "autograd/ops/embedding.h"
#include "core/ops/embedding.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

Values naive_embedding(const std::vector<Tensor>& x) {
  const Values ids = x[0].to_vector(), table = x[1].to_vector();
  const int64_t columns = x[1].dim(1);
  Values y;
  for (double id : ids)
    for (int64_t c = 0; c < columns; ++c) y.push_back(table[static_cast<int64_t>(id) * columns + c]);
  return y;
}

/// Ids that the test chooses, of an index dtype.
InputSpec ids(const Shape& shape, std::vector<double> elements, DType dtype = DType::i32) {
  return {[=] { return tensor_of(elements, shape, dtype); }};
}

}  // namespace

OP_CASES(embedding) {
  const auto run = [](const std::vector<Var>& x) { return embedding(x[0].value(), x[1]); };
  add({.name = "small", .inputs = {indices({2, 5}, 7), randn({7, 3})}, .run = run, .expect = naive_embedding});
  add({.name = "repeated", .inputs = {ids({4}, {2, 2, 0, 2}), randn({3, 5})}, .run = run, .expect = naive_embedding});
  add({.name = "i64", .inputs = {indices({3}, 4, DType::i64), randn({4, 2})}, .run = run, .expect = naive_embedding});
  add({.name = "bytes", .inputs = {indices({3}, 4, DType::u8), randn({4, 2})}, .run = run, .expect = naive_embedding});
  add({.name = "several_chunks_of_columns", .inputs = {ids({3}, {1, 0, 1}), randn({2, 300})}, .run = run, .expect = naive_embedding});
  add({.name = "one_id", .inputs = {ids({}, {1}), randn({2, 4})}, .run = run, .expect = naive_embedding});
  add({.name = "no_ids", .inputs = {indices({0, 4}, 7), randn({7, 3})}, .run = run, .expect = naive_embedding});
  add({.name = "no_columns", .inputs = {indices({2}, 7), randn({7, 0})}, .run = run, .expect = naive_embedding});
  add({.name = "views",
       .inputs = {transposed(indices({2, 3}, 5), 0, 1), transposed(randn({4, 5}), 0, 1)},
       .run = run,
       .expect = naive_embedding});
  add({.name = "too_large", .inputs = {ids({2, 2}, {0, 1, 3, 7}), randn({3, 2})}, .run = run, .throws = "in [0, 3), got 3 at position 2"});
  add({.name = "negative",
       .inputs = {ids({2}, {0, -1}, DType::i64), randn({3, 2})},
       .run = run,
       .throws = "in [0, 3), got -1 at position 1"});
  add({.name = "empty_table", .inputs = {ids({1}, {0}), randn({0, 2})}, .run = run, .throws = "in [0, 0), got 0 at position 0"});
  add({.name = "gradient_of_too_few_rows",
       .inputs = {ids({4}, {0, 2, 1, 2}), randn({2, 3})},
       .run = [](const auto& x) { return Var(embedding_backward(x[0].value(), x[1].value(), 3)); },
       .throws = "embedding: needs a gradient [..., D] with a row for each id, got f32 [2, 3]"});
  add({.name = "floating_ids", .inputs = {randn({2}), randn({3, 2})}, .run = run, .throws = "integer dtype"});
  add({.name = "table_of_rank_3", .inputs = {ids({1}, {0}), randn({3, 2, 2})}, .run = run, .throws = "table [V, D]"});
  add({.name = "gpt", .inputs = {indices({8, 256}, 8192), randn({8192, 384})}, .run = run, .bench = true});
}
