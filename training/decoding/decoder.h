#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/inference.h"

namespace sluice::training {

struct DecoderOptions {
  std::string tokens = "tokens";          ///< the input that sequences grow by: i32 [T] a sample
  int64_t rows = 1;                       ///< sequences of a group, which grow together
  int groups = 1;                         ///< that may be there at once: what keeps all stages of a pipeline busy
  int64_t capacity = 0;                   ///< most tokens of a sequence; 0: as many as the model's input is declared with
  parallel::InferenceOptions pipeline{};  ///< its micro_batches are those of what is computed once a group
};

/// Makes sequences token by token with a model whose output is [B, T, vocabulary], by pipelines over any devices of one kind. Keys and values
/// of attention stay on the devices (layers::KeyValueCache); a run adds one or several tokens to some groups, each a micro-batch.
///
/// What the output depends on is cut in two: nodes that the tokens reach run for each token; the others, an encoder, run once a group
/// (`encode`), and what they make becomes an input of the former. Each part is a forward-only pipeline over all devices.
/// Only causal attention may mix tokens, as it keeps what it saw of them: a recurrent layer, a convolution over tokens or a Lambda with a
/// cumsum would take each new token for a sequence of its own. A few tokens are run on the host when a decoder is made, at once and in pieces,
/// and models of which these differ are refused; Predictor runs them on whole sequences.
/// Threads  one caller.
/// Errors   as parallel::InferencePipeline; the budgets hold both parts together, with all caches full. After a failure no group is there
///          any more.
class Decoder {
 public:
  /// Errors  UsageError when the output does not depend on the tokens, for a model whose layers mix tokens but by causal attention, and for an
  ///         input beside the tokens that has something for each of them, such as segments; OutOfMemory when the weights of both parts, all
  ///         groups with full caches and a run of one token each are beyond a budget.
  Decoder(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices, const DecoderOptions& options);

  using Inputs = std::map<std::string, Tensor>;
  /// What the tokens' nodes read beside the tokens, of any number of samples, on the host: inputs of the graph as they are given, and the
  /// values of nodes that the tokens do not reach, by the names of their nodes. Nothing for a decoder-only model.
  /// Errors  UsageError for an input that is missing.
  Inputs encode(const Inputs& inputs);

  /// The next tokens of a group.
  struct Feed {
    int group = 0;
    Tensor tokens{};                      ///< i32 [rows, T]; all feeds of a run have one T
    std::vector<int32_t> parents{};       ///< by row, the row that it goes on with; empty: each with itself
    const Inputs* begins_with = nullptr;  ///< begins the group anew, with what `encode` gives, [rows, ...] each
  };
  /// Logits of each row's last token, f32 [feeds x rows, vocabulary], on the host.
  /// Errors  UsageError for a group that has not begun, tokens beyond the capacity, and shapes that do not fit.
  Tensor advance(std::span<const Feed> feeds);
  /// Frees what the devices keep of a group.
  void end(int group);

  const DecoderOptions& options() const { return options_; }
  /// Of what runs for every token.
  const parallel::InferencePipeline& pipeline() const { return *step_; }
  /// By device: the most bytes of any run so far, as counted, all caches full.
  std::vector<int64_t> predicted_peak_bytes() const;

 private:
  void share_devices();
  void check(std::span<const Feed> feeds) const;

  DecoderOptions options_;
  std::unique_ptr<parallel::InferencePipeline> step_;
  int tokens_input_ = 0;                                                         ///< of step_'s graph
  std::map<std::string, std::unique_ptr<parallel::InferencePipeline>> context_;  ///< by node: what makes its value
  std::map<int, int64_t> lengths_;                                               ///< by group that has begun
};

}  // namespace sluice::training
