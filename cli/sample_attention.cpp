#include "cli/sample_attention.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/build.h"
#include "cli/trained_model.h"
#include "training/attention_map.h"

namespace sluice::cli {

namespace {

constexpr size_t kMostTokens = 30;  // a side of what is still readable

/// What the encoder reads of a pair, and what the decoder reads and then says: see MultilingualTokenizer.
struct TokenPair {
  std::vector<int32_t> source, target;
};

TokenPair tokens_of(const data::MultilingualTokenizer& tokenizer, const TranslatedPair& pair) {
  return {tokenizer.encode_source(pair.from, pair.to, pair.source), tokenizer.encode_target(pair.to, pair.reference)};
}

/// Null where none is short enough for eyes and for the model. Of names that stay as they are there is little to see.
const TranslatedPair* longest_readable(const data::MultilingualTokenizer& tokenizer, const std::vector<TranslatedPair>& examples,
                                       const Settings& settings) {
  const auto most_in = [&](const char* key) { return std::min(kMostTokens, static_cast<size_t>(settings.integer(key))); };
  const TranslatedPair* best = nullptr;
  std::pair<bool, size_t> most;  // whether it is translated at all, and its tokens
  for (const auto& example : examples) {
    const TokenPair pair = tokens_of(tokenizer, example);
    const std::pair value{example.reference != example.source, pair.source.size() + pair.target.size()};
    const bool fits = pair.source.size() <= most_in("model.source_context") && pair.target.size() <= most_in("model.target_context");
    if (!fits || value <= most) continue;
    best = &example;
    most = value;
  }
  return best;
}

/// The last attention to the encoder's output but one, which tends to follow the words best (arXiv:1909.02074); of one layer that one.
std::string attention_node(const layers::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes())
    if (node.name.ends_with(".cross_attention")) names.push_back(node.name);
  return names.at(names.size() > 1 ? names.size() - 2 : 0);
}

std::map<std::string, Tensor> inputs_of(const TokenPair& pair) {
  const auto count = [](const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); };
  const auto row = [&](const std::vector<int32_t>& ids, int64_t length) {
    return tensor_of({ids.begin(), ids.begin() + length}, {1, length}, DType::i32);
  };
  const auto number = [](int64_t value) { return tensor_of({static_cast<double>(value)}, {1}, DType::i32); };
  const int64_t source = count(pair.source), target = count(pair.target) - 1;
  return {{"source", row(pair.source, source)},
          {"source_length", number(source)},
          {"target", row(pair.target, target)},
          {"target_length", number(target)}};
}

/// Of [1, H, T, S]: the mean over the heads.
std::vector<double> mean_of_heads(const Tensor& map) {
  const auto elements = map.to_vector();
  std::vector<double> mean(elements.size() / static_cast<size_t>(map.dim(1)));
  for (size_t i = 0; i < elements.size(); ++i) mean[i % mean.size()] += elements[i] / static_cast<double>(map.dim(1));
  return mean;
}

}  // namespace

std::optional<AttentionPlot> sample_attention(const parallel::Checkpoint& checkpoint, const layers::Graph& graph,
                                              const data::MultilingualTokenizer& tokenizer, const std::vector<TranslatedPair>& examples,
                                              const Settings& settings, const std::vector<DevicePtr>& devices) {
  const TranslatedPair* example = longest_readable(tokenizer, examples, settings);
  if (!example) return std::nullopt;
  const TokenPair pair = tokens_of(tokenizer, *example);
  const std::string node = attention_node(graph);
  const Tensor map = training::attention_map(graph, parameters_of(checkpoint, graph, settings), devices, node, inputs_of(pair),
                                             {.precision = precision_of(settings), .timeout_seconds = settings.number("pipeline.timeout")});
  AttentionPlot plot;
  plot.caption = fmt::format(
      "Where {} looks, as the mean of its {} heads, while it reads the source \"{}\" ({}) and says the reference \"{}\" ({}). A row is the "
      "token that is said next, a column a token of the source; each row sums to 1.",
      node, map.dim(1), example->source, example->from, example->reference, example->to);
  for (size_t i = 1; i < pair.target.size(); ++i) plot.queries.push_back(tokenizer.piece(pair.target[i]));
  for (const int32_t id : pair.source) plot.keys.push_back(tokenizer.piece(id));
  plot.weights = mean_of_heads(map);
  return plot;
}

}  // namespace sluice::cli
