#include "cli/sample_text.h"

#include <algorithm>

#include "cli/build.h"
#include "cli/trained_model.h"
#include "training/decoding/sampling.h"

namespace sluice::cli {

namespace {

constexpr const char* kPrompt = "The";
constexpr int64_t kTokens = 300;

}  // namespace

std::string sample_text(const parallel::Checkpoint& checkpoint, const layers::Graph& graph, const data::Tokenizer& tokenizer,
                        const Settings& settings) {
  const int64_t context = settings.integer("model.context");
  std::vector<int32_t> tokens = tokenizer.encode(kPrompt);
  const int64_t count = std::min(kTokens, context - static_cast<int64_t>(tokens.size()));
  if (count < 1) return "";
  training::SamplingOptions sampling;
  sampling.temperature = 0.8;
  sampling.seed = static_cast<uint64_t>(settings.integer("train.seed"));
  const std::vector<int32_t> prompt = tokens;
  training::Decoder decoder(graph, parameters_of(checkpoint, graph, settings), devices("cpu:0"),
                            {.pipeline = {.precision = precision_of(settings)}});
  training::sample(decoder, prompt, count, sampling, [&](int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokenizer.decode(tokens);
}

}  // namespace sluice::cli
