#pragma once
#include <optional>
#include <vector>

#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"

namespace sluice::models {

/// Adds a pre-norm feed-forward layer as two nodes, "BLOCK.feed_forward_in" and "BLOCK.feed_forward_out", so that a pipeline may be cut
/// between them: they are two thirds of a Transformer's block. Returns the value of the second. `lengths` of the samples, if any, spare
/// them the padding.
template <class Norm>
layers::Value add_feed_forward(layers::Graph& graph, const std::string& block, const layers::FeedForward::Options& of, double dropout,
                               layers::Value x, std::optional<layers::Value> lengths = {}) {
  using namespace layers;
  std::vector<Value> in{x};
  if (lengths) in.push_back(*lengths);
  const Value h = graph.add(
      block + ".feed_forward_in",
      PreNorm(Norm(of.width), "linear", LinearActivation(of.width, of.inner, of.activation, of.standard_deviation).with_lengths()), in);
  in.insert(in.begin(), h);
  return graph.add(block + ".feed_forward_out", Residual(Linear(of.inner, of.width, true, of.output_deviation).with_lengths(), dropout),
                   in);
}

}  // namespace sluice::models
