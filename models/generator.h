#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "layers/graph.h"

namespace sluice::models {

struct SamplingOptions {
  double temperature = 1;  ///< 0 = the most likely token always
  int64_t top_k = 0;       ///< keep the k most likely; 0 = all
  double top_p = 1;        ///< keep the smallest set whose probability reaches p
  uint64_t seed = 0;
};

/// Continues token sequences with a language model on one device, with a key/value cache.
/// The graph's first input is the tokens, its output the logits [1, T, vocabulary], made by a node that treats tokens alone.
/// Threads  one.
class Generator {
 public:
  /// `parameters` by full name, on one device; `context` is the largest number of tokens, prompt included. The graph must outlive this.
  /// Errors  UsageError when a parameter is missing or has another shape, or the output depends on another input than the first.
  Generator(const layers::Graph& graph, std::map<std::string, Tensor> parameters, int64_t context);

  /// Calls `emit` for each new token until it returns false or `count` tokens came. The sequence may not pass the context.
  /// Errors  UsageError when the prompt is empty or prompt + count is longer than the context.
  void generate(const std::vector<int32_t>& prompt, int64_t count, const SamplingOptions& options,
                const std::function<bool(int32_t)>& emit);

 private:
  void start();
  std::vector<double> next_logits(const std::vector<int32_t>& tokens);

  const layers::Graph& graph_;
  std::map<std::string, Tensor> parameters_;
  int64_t context_;
  std::vector<std::vector<Tensor>> tables_;    ///< by node
  std::vector<layers::KeyValueCache> caches_;  ///< by node
  int64_t position_ = 0;
};

/// Draws one token from logits: temperature, then top-k, then top-p; `random` in [0, 1).
int32_t sample_token(std::vector<double> logits, const SamplingOptions& options, double random);

}  // namespace sluice::models
