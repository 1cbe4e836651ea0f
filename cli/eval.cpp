#include <fmt/core.h>

#include <cmath>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/json_report.h"
#include "cli/trained_model.h"
#include "cli/validate.h"

namespace sluice::cli {

namespace {

/// A wider matrix is no use on a screen.
constexpr size_t kMostClassesShown = 32;

void tell_of_text(std::FILE* out, Json& json, double loss, const Corpus& corpus, const Settings& settings) {
  const double bits_per_byte = loss / std::log(2.0) / corpus.bytes_per_token, baseline = trigram_loss(corpus, settings);
  json["bits_per_byte"] = bits_per_byte;
  json["loss"]["trigram"] = baseline;
  fmt::print(out, "{:.4f} bits per byte; trigram model on the same split: loss {:.4f}\n", bits_per_byte, baseline);
}

void tell_of_classes(std::FILE* out, Json& json, const Classification& classification, bool of_pixels) {
  json["accuracy"] = classification.top(1);
  json["top5"] = classification.top(5);
  json["samples"] = classification.samples();
  json["confusion"] = classification.confusion();
  if (of_pixels)
    json["mean_iou"] = classification.mean_iou();
  else
    fmt::print(out, "top-1 {:.2f} %, top-5 {:.2f} % of {} pictures\n", classification.top(1) * 100, classification.top(5) * 100,
               classification.samples());
  if (classification.confusion().size() <= kMostClassesShown) fmt::print(out, "{}", classification.table());
}

}  // namespace

int run_eval(const Arguments& arguments) {
  const auto checkpoint = find_checkpoint(arguments.argument);
  const Settings settings = settings_of(checkpoint, arguments.list("--set"));
  const auto graph = build_graph(settings);
  const auto optimizer = build_optimizer(settings);
  const Corpus corpus = load_corpus(settings, tokenizer_of(checkpoint));
  parallel::Trainer trainer(graph, build_evaluation_plan(graph, settings, *optimizer), *optimizer, build_trainer_options(settings));
  parallel::restore(checkpoint, trainer);

  const Validation validation = validate(trainer, corpus, settings);
  Json json = {{"parameters", graph.parameter_count()},          {"steps", checkpoint.step},
               {"loss", {{"validation", validation.loss}}},      {"weights_hash", checkpoint.weights_hash},
               {"latency_ms", validation.latency_seconds * 1e3}, {"samples_per_second", validation.samples_per_second}};
  std::FILE* out = arguments.text("--json") == "-" ? stderr : stdout;
  fmt::print(out, "{}: {}\n", checkpoint.folder.string(), describe(validation));
  if (!validation.classification) json["perplexity"] = std::exp(validation.loss);
  if (corpus.text) tell_of_text(out, json, validation.loss, corpus, settings);
  if (validation.classification) tell_of_classes(out, json, *validation.classification, validation.of_pixels);
  fmt::print(out, "latency {:.1f} ms a mini-batch of {}, {:.0f} samples/s\n", validation.latency_seconds * 1e3,
             settings.integer("train.batch"), validation.samples_per_second);
  write_json(json, arguments.text("--json"));
  return 0;
}

}  // namespace sluice::cli
