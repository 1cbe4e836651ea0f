#include "core/cuda/cudnn_attention.h"

#include <cmath>
#include <limits>

#include "core/cuda/cudnn_composition.h"

namespace sluice::cudnn {

namespace {

using Value = Composition::Value;
constexpr auto kBf16 = CUDNN_DATA_BFLOAT16, kF32 = CUDNN_DATA_FLOAT;

/// The layouts of a call; the library counts axes as sample, head, token, element.
struct Layouts {
  explicit Layouts(const Attention& of)
      : scores{{of.samples, of.heads, of.queries, of.keys}, {of.heads * of.queries * of.keys, of.queries * of.keys, of.keys, 1}},
        rows{{of.samples, of.heads, of.queries, 1}, {of.heads * of.queries, of.queries, 1, 1}} {}
  static Layout heads(int64_t samples, int64_t heads, int64_t tokens, int64_t width, const HeadStrides& at) {
    return {{samples, heads, tokens, width}, {at.sample, at.head, at.token, 1}};
  }
  static Layout queries(const Attention& of, const HeadStrides& at) { return heads(of.samples, of.heads, of.queries, of.width, at); }
  static Layout keys(const Attention& of, const HeadStrides& at) { return heads(of.samples, of.key_heads, of.keys, of.width, at); }

  Layout scores, rows;
};

float scale_of(const Attention& of) { return static_cast<float>(1 / std::sqrt(static_cast<double>(of.width))); }

/// The scores, and minus infinity where a key comes after the query.
Value masked(Composition& graph, const Attention& of, const Value& scores) {
  if (!of.causal) return scores;
  const auto index = [&](int64_t axis) {
    return graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, graph.between(CUDNN_DATA_INT32, scores.layout), kF32, axis);
  };
  const Value query = index(2), key = index(3);
  const Value seen =
      graph.pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, graph.between(CUDNN_DATA_BOOLEAN, scores.layout), CUDNN_DATA_BOOLEAN);
  const Value never = graph.scalar(-std::numeric_limits<float>::infinity());
  return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, never, seen}, graph.between(kF32, scores.layout));
}

void compose_forward(Composition& graph, const Attention& of) {
  const Layouts at(of);
  const Value q = graph.tensor(kBf16, Layouts::queries(of, of.q)), k = graph.tensor(kBf16, Layouts::keys(of, of.k).transposed()),
              v = graph.tensor(kBf16, Layouts::keys(of, of.v)), y = graph.tensor(kBf16, Layouts::queries(of, of.y)),
              log_sum_exp = graph.tensor(kF32, at.rows);
  const auto scores = [&] { return graph.between(kF32, at.scores); };
  const auto rows = [&] { return graph.between(kF32, at.rows); };
  const Value products = graph.product(q, k, scores());
  const Value scaled = graph.pointwise(CUDNN_POINTWISE_MUL, {products, graph.scalar(scale_of(of))}, scores());
  const Value visible = masked(graph, of, scaled);
  const Value largest = graph.reduction(CUDNN_REDUCE_TENSOR_MAX, visible, rows());
  const Value below = graph.pointwise(CUDNN_POINTWISE_SUB, {visible, largest}, scores());
  const Value weights = graph.pointwise(CUDNN_POINTWISE_EXP, {below}, scores());
  const Value sum = graph.reduction(CUDNN_REDUCE_TENSOR_ADD, weights, rows());
  const Value log_sum = graph.pointwise(CUDNN_POINTWISE_LOG, {sum}, rows());
  graph.pointwise(CUDNN_POINTWISE_ADD, {largest, log_sum}, log_sum_exp);
  const Value shares = graph.pointwise(CUDNN_POINTWISE_DIV, {weights, sum}, graph.between(kBf16, at.scores));
  graph.product(shares, v, y);
}

/// The gradient of the scores is shares * (dy v^T - row_sums) * scale, with shares = exp(scores - log_sum_exp).
void compose_backward(Composition& graph, const Attention& of) {
  const Layouts at(of);
  const Layout of_queries = Layouts::queries(of, of.y);
  const Value q = graph.tensor(kBf16, Layouts::queries(of, of.q)), k = graph.tensor(kBf16, Layouts::keys(of, of.k).transposed()),
              v = graph.tensor(kBf16, Layouts::keys(of, of.v).transposed()), y = graph.tensor(kBf16, of_queries),
              dy = graph.tensor(kBf16, Layouts::queries(of, of.dy)), log_sum_exp = graph.tensor(kF32, at.rows),
              row_sums = graph.tensor(kF32, at.rows), dq = graph.tensor(kBf16, Layouts::queries(of, of.dq)),
              dk = graph.tensor(kBf16, Layouts::keys(of, of.dk)), dv = graph.tensor(kBf16, Layouts::keys(of, of.dv));
  const auto scores = [&] { return graph.between(kF32, at.scores); };
  const auto transposed = [&](const Value& x) { return graph.seen_as(x, graph.between(kBf16, x.layout.transposed())); };

  const Value dy_y = graph.pointwise(CUDNN_POINTWISE_MUL, {dy, y}, graph.between(kF32, of_queries));
  const Value sums = graph.reduction(CUDNN_REDUCE_TENSOR_ADD, dy_y, graph.between(kF32, at.rows));
  graph.pointwise(CUDNN_POINTWISE_MUL, {sums, graph.scalar(1)}, row_sums);  // the pattern has the place for dropout's factor

  const Value scale = graph.scalar(scale_of(of));
  const Value scaled = graph.pointwise(CUDNN_POINTWISE_MUL, {graph.product(q, k, scores()), scale}, scores());
  const Value below = graph.pointwise(CUDNN_POINTWISE_SUB, {scaled, log_sum_exp}, scores());
  const Value shares = graph.pointwise(CUDNN_POINTWISE_EXP, {masked(graph, of, below)}, scores());
  graph.product(transposed(shares), dy, dv);

  const Value beyond = graph.pointwise(CUDNN_POINTWISE_SUB, {graph.product(dy, v, scores()), row_sums}, scores());
  const Value dscaled = graph.pointwise(CUDNN_POINTWISE_MUL, {beyond, shares}, scores());
  const Value dscores = graph.pointwise(CUDNN_POINTWISE_MUL, {dscaled, scale}, scores());
  graph.product(transposed(dscores), q, dk);
  graph.product(dscores, transposed(k), dq);
}

}  // namespace

std::shared_ptr<const Graph> graph_of(const Library& library, const Attention& of) {
  Composition graph(library);
  of.backward ? compose_backward(graph, of) : compose_forward(graph, of);
  return std::move(graph).graph();
}

}  // namespace sluice::cudnn
