#include "layers/embedding.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/reshape.h"
#include "layers/dropout.h"

namespace sluice::layers {

Embedding::Embedding(int64_t vocabulary, int64_t width, double standard_deviation)
    : vocabulary_(vocabulary), width_(width), standard_deviation_(standard_deviation) {
  require(vocabulary > 0 && width > 0, "Embedding: needs a vocabulary and a width > 0, got ", vocabulary, " and ", width);
}

std::vector<ParameterSpec> Embedding::parameters() const {
  return {{"weight", {vocabulary_, width_}, Initializer::normal(standard_deviation_)}};
}

Var Embedding::forward(const Call& call) const { return embedding(call.inputs[0].value(), call.parameters[0]); }

Positions::Positions(Kind kind, int64_t context, int64_t width) : kind_(kind), context_(context), width_(width) {
  require(context > 0 && width > 0, "Positions: needs a context and a width > 0, got ", context, " and ", width);
}

std::vector<ParameterSpec> Positions::parameters() const {
  if (kind_ == Kind::sinusoidal) return {};
  return {{"weight", {context_, width_}, Initializer::normal(0.02), false}};
}

std::vector<TableSpec> Positions::tables() const {
  if (kind_ == Kind::learned) return {};
  return {{context_, width_, true}};
}

Var Positions::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(x.rank() == 3 && x.dim(2) == width_ && is_floating(x.dtype()), "Positions: needs floats [B, T, ", width_, "], got ",
          name_of(x.dtype()), " ", x.shape());
  const int64_t first = call.first_position, count = x.dim(1);
  require(first + count <= context_, "Positions: needs at most ", context_, " tokens, its context (model.context), got ", first + count);
  const Var table =
      kind_ == Kind::sinusoidal ? Var(rows_of_table("Positions", call, first, count)) : slice(call.parameters[0], 0, first, first + count);
  return add(in_working_dtype(x, table), table);
}

TokenEmbedding::TokenEmbedding(const Options& options) : scale_(options.scale) {
  tokens_ = add("tokens", Embedding(options.vocabulary, options.width, options.standard_deviation));
  if (options.positions) positions_ = add("positions", Positions(*options.positions, options.context, options.width));
  dropout_ = add("dropout", Dropout(options.dropout));
}

Var TokenEmbedding::forward(const Call& call) const {
  Var x = run(call, tokens_, call.inputs);
  if (scale_ != 1) x = scale(x, scale_);
  if (positions_ >= 0) x = run(call, positions_, {x});
  return run(call, dropout_, {x});
}

}  // namespace sluice::layers
