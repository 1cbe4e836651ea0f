#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/trained_model.h"
#include "data/stream_decoder.h"
#include "training/decoding/sampling.h"

namespace sluice::cli {

namespace {

training::SamplingOptions sampling_of(const Arguments& arguments) {
  training::SamplingOptions sampling;
  sampling.temperature = arguments.number("--temperature", 0.8, 0, 1000);
  sampling.top_k = arguments.integer("--top-k", 0, 0);
  sampling.top_p = arguments.number("--top-p", 1, 0, 1);
  require(sampling.top_p > 0, "--top-p: needs a number above 0 and at most 1, got 0; 1 chooses among all tokens");
  sampling.seed = static_cast<uint64_t>(arguments.integer("--seed", 1, 0));
  return sampling;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int print_continued(training::Decoder& decoder, const data::Tokenizer& tokenizer, const std::vector<int32_t>& prompt, int64_t count,
                    const training::SamplingOptions& sampling) {
  data::StreamDecoder text(tokenizer);
  print(text.add(prompt));
  const auto began = std::chrono::steady_clock::now();
  training::sample(decoder, prompt, count, sampling, [&](int32_t token) {
    print(text.add(token));
    return true;
  });
  print(text.finish() + "\n");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const auto done = static_cast<double>(count);
  tell(stderr, fmt::format("{} tokens, {:.2f} ms a token, {:.0f} tokens/s\n", count, 1e3 * seconds / done, done / seconds));
  return 0;
}

AfterReading generate(const parallel::Checkpoint& checkpoint, const Arguments& arguments) {
  constexpr int64_t kTokens = 200;
  const auto sampling = sampling_of(arguments);
  const Settings settings = settings_of(checkpoint, arguments.list("--set"));
  require(!is_translation_model(settings),
          "generate: needs a language model, the checkpoint has model.name = \"translation\"; use translate");
  const std::string serialized = tokenizer_of(checkpoint);
  require(!serialized.empty(), "generate: needs a model trained on text, this one was not");
  const auto tokenizer = data::load_tokenizer(serialized);
  const auto graph = build_graph(settings);

  const int64_t context = settings.integer("model.context");
  const auto prompt = tokenizer->encode(arguments.text("--prompt"));
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  require(prompt_tokens > 0, "--prompt: needs a text to continue, got none");
  require(prompt_tokens < context, "--prompt: needs at most ", context - 1, " tokens, because the model's context is ", context, ", got ",
          prompt_tokens, "; shorten it");
  // A model with a context of C tokens continues a prompt of P by at most C - P.
  const int64_t most = context - prompt_tokens;
  const int64_t count = arguments.integer("--tokens", std::min(kTokens, most), 1, most);

  const training::DecoderOptions options{
      .pipeline = {.precision = precision_of(settings), .timeout_seconds = settings.number("pipeline.timeout")}};
  const auto decoder =
      std::make_shared<training::Decoder>(graph, parameters_of(checkpoint, graph, settings), build_devices(settings), options);
  return [=] { return print_continued(*decoder, *tokenizer, prompt, count, sampling); };
}

}  // namespace

int run_generate(const Arguments& arguments) {
  return with_checkpoint(arguments.argument, parallel::Wanted::weights,
                         [&](const parallel::Checkpoint& checkpoint) { return generate(checkpoint, arguments); });
}

}  // namespace sluice::cli
