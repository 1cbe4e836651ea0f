#pragma once
#include <functional>
#include <map>
#include <string>

#include "core/batch.h"
#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "models/transformer.h"

namespace sluice::testing {

inline Tensor random_tokens(const Shape& shape, int64_t below, uint64_t seed) {
  Tensor x = empty(shape, DType::f64);
  fill_uniform(x, 0, static_cast<double>(below), random_key(seed, "tokens"));
  std::vector<double> whole = x.to_vector();
  for (double& value : whole) value = static_cast<double>(static_cast<int64_t>(value));
  return tensor_of(whole, shape, DType::i32);
}

inline models::TransformerOptions tiny_transformer_options() {
  models::TransformerOptions options;
  options.layers = 2;
  options.dim = 16;
  options.heads = 2;
  options.vocab = 19;
  options.context = 8;
  options.dropout = 0.1;
  return options;
}

inline Batch token_batch(const models::TransformerOptions& options, int64_t samples, uint64_t seed) {
  return batch_of({{"tokens", random_tokens({samples, options.context}, options.vocab, seed)},
                   {"targets", random_tokens({samples, options.context}, options.vocab, seed + 1000)}});
}

/// The sum of all inputs: a join for skip connections.
class Sum : public layers::Module {
 public:
  layers::InputCount input_count() const override { return {1, layers::InputCount::kAny}; }
  Var forward(const layers::Call& call) const override;
};

/// A DAG with long skips, an input and a value with consumers in many stages, dropout and two outputs: [B, 6] floats and labels below 5.
layers::Graph skip_graph();
Batch skip_batch(int64_t samples, uint64_t seed);

/// Two BatchNorms, one of them within a Sequence, and pools: [B, 5, 6, 3] floats and labels below 5.
layers::Graph image_graph();
Batch image_batch(int64_t samples, uint64_t seed);

/// A model with mini-batches of its own, a seed each.
struct TinyModel {
  layers::Graph graph;
  std::function<Batch(uint64_t seed)> batch;
};
/// With running statistics: image_graph().
TinyModel tiny_classifier(int64_t samples);
/// A Transformer with tied weights.
TinyModel tiny_language_model(int64_t samples);

}  // namespace sluice::testing
