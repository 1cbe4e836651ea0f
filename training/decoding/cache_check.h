#pragma once
#include <optional>
#include <string>

#include "parallel/inference.h"

namespace sluice::training {

/// What runs for each token: a graph, its weights, and which of its inputs are the tokens.
struct TokenModel {
  const layers::Graph& graph;
  const parallel::Weights& weights;
  int tokens;        ///< the input of the tokens
  int64_t declared;  ///< tokens of a sample as the graph declares them; 0: it does not say
  int64_t capacity;  ///< most tokens of a sequence
};

/// An input beside the tokens that has something for each of them, as segments have, and the node that reads it; nothing when there is none.
/// Each new token would read all of it. Looks at shapes alone: beside the whole input, but not beside a part of it, one token is refused or
/// becomes several.
struct PerTokenInput {
  std::string input, node;
};
std::optional<PerTokenInput> per_token_input(const TokenModel& model);

/// Runs a few tokens at once without caches, and in pieces with them, in f32 on the host, and compares the logits. They differ when a node
/// mixes tokens but by causal attention: it sees those of its own piece alone. A model that refuses the values which other inputs get here
/// passes.
/// Errors  UsageError naming the first node whose values differ, or the node that refuses a piece.
/// Cost    four passes over the weights on one thread.
void require_same_with_caches(const TokenModel& model);

}  // namespace sluice::training
