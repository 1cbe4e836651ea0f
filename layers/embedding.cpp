#include "layers/embedding.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/reshape.h"
#include "core/ops/copy.h"
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

Var Positions::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  const int64_t first = call.first_position, count = x.dim(1);
  require(first + count <= context_, "Positions: needs at most ", context_, " tokens (model.context), got ", first + count);
  if (kind_ == Kind::sinusoidal) return add(x, Var(sinusoids(first, count, x.value())));
  const Var& weight = call.parameters[0];
  return add(in_working_dtype(x, weight), slice(weight, 0, first, first + count));
}

Tensor Positions::sinusoids(int64_t first, int64_t count, const Tensor& like) const {
  if (like.device().kind() == DeviceKind::meta) return empty({count, width_}, like.dtype(), like.device_ptr());
  std::vector<double> elements(count * width_);
  const int64_t half = (width_ + 1) / 2;
  for (int64_t t = 0; t < count; ++t)
    for (int64_t i = 0; i < width_; ++i) {
      const double angle = static_cast<double>(first + t) * std::pow(10000.0, -static_cast<double>(i % half) / static_cast<double>(half));
      elements[t * width_ + i] = i < half ? std::sin(angle) : std::cos(angle);
    }
  return tensor_of(elements, {count, width_}, like.dtype(), like.device_ptr());
}

TokenEmbedding::TokenEmbedding(const Options& options) : scale_(options.scale) {
  const std::vector<std::string> kinds{"learned", "sinusoidal", "rotary"};
  require(std::ranges::find(kinds, options.positions) != kinds.end(), "TokenEmbedding: unknown positions '", options.positions,
          "'; the nearest is '", nearest_word(options.positions, kinds), "'");
  tokens_ = add("tokens", Embedding(options.vocabulary, options.width, options.standard_deviation));
  if (options.positions != "rotary")
    positions_ = add("positions", Positions(options.positions == "learned" ? Positions::Kind::learned : Positions::Kind::sinusoidal,
                                            options.context, options.width));
  dropout_ = add("dropout", Dropout(options.dropout));
}

Var TokenEmbedding::forward(const Call& call) const {
  Var x = run(call, tokens_, call.inputs);
  if (scale_ != 1) x = scale(x, scale_);
  if (positions_ >= 0) x = run(call, positions_, {x});
  return run(call, dropout_, {x});
}

}  // namespace sluice::layers
