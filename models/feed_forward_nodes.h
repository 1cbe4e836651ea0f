#pragma once
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"

namespace sluice::models {

/// Adds a pre-norm feed-forward layer as two nodes, "BLOCK.feed_forward_in" and "BLOCK.feed_forward_out", so that a pipeline may be cut
/// between them: they are two thirds of a Transformer's block. Answers the value of the second.
template <class Norm>
layers::Value add_feed_forward(layers::Graph& graph, const std::string& block, const layers::FeedForward::Options& of, double dropout,
                               layers::Value x) {
  using namespace layers;
  auto hidden =
      Sequence().then("norm", Norm(of.width)).then("linear", LinearActivation(of.width, of.inner, of.activation, of.standard_deviation));
  const Value h = graph.add(block + ".feed_forward_in", std::move(hidden), x);
  return graph.add(block + ".feed_forward_out", Residual(Linear(of.inner, of.width, true, of.output_deviation), dropout), {h, x});
}

}  // namespace sluice::models
