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

/// Where an input beside the tokens has something for each token, as segments do, one new token would read all of it. Looks at shapes alone:
/// one token makes something else beside the whole input than beside its first part.
/// Returns  the step graph's inputs of that kind with the nodes that read them, the first one; empty when there is none.
struct PerTokenInput {
  std::string input, node;
};
std::optional<PerTokenInput> per_token_input(const TokenModel& model);

/// Runs a few tokens at once without caches, and in pieces with them, in f32 on the host, and compares the logits. They differ when a node
/// mixes tokens but by causal attention: it sees those of its own piece alone. What cannot be tried so, as the values of other inputs that it
/// takes are not known, passes.
/// Errors  UsageError naming the first node whose values differ, and of the pieces, naming the node.
/// Cost    four passes over the weights on one thread.
void require_same_with_caches(const TokenModel& model);

}  // namespace sluice::training
