#include <fmt/core.h>

#include <cmath>

#include "cli/commands.h"
#include "cli/json_report.h"
#include "cli/trained_model.h"
#include "cli/validate.h"

namespace sluice::cli {

int run_eval(const Arguments& arguments) {
  const auto checkpoint = find_checkpoint(arguments.argument);
  const Settings settings = settings_of(checkpoint, arguments.list("--set"));
  const auto graph = build_graph(settings);
  const auto optimizer = build_optimizer(settings);
  const Corpus corpus = load_corpus(settings, tokenizer_of(checkpoint));
  parallel::Trainer trainer(graph, build_plan(graph, settings), *optimizer);
  parallel::restore(checkpoint, trainer);

  const double loss = validation_loss(trainer, corpus, settings);
  Json json = {{"parameters", graph.parameter_count()},
               {"steps", checkpoint.step},
               {"loss", {{"validation", loss}}},
               {"perplexity", std::exp(loss)},
               {"weights_hash", checkpoint.weights_hash}};
  std::FILE* out = arguments.text("--json") == "-" ? stderr : stdout;
  fmt::print(out, "{}: loss {:.4f}, perplexity {:.2f}\n", checkpoint.folder.string(), loss, std::exp(loss));
  if (corpus.text) {
    const double bits_per_byte = loss / std::log(2.0) / corpus.bytes_per_token, baseline = trigram_loss(corpus, settings);
    json["bits_per_byte"] = bits_per_byte;
    json["loss"]["trigram"] = baseline;
    fmt::print(out, "{:.4f} bits per byte; trigram model on the same split: loss {:.4f}\n", bits_per_byte, baseline);
  }
  write_json(json, arguments.text("--json"));
  return 0;
}

}  // namespace sluice::cli
