#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/messages.h"
#include "cli/report/json_report.h"
#include "cli/result_files.h"
#include "cli/trained_model.h"
#include "cli/translation_scores.h"
#include "cli/validate.h"
#include "training/data_hash.h"

namespace sluice::cli {

namespace {

/// A wider matrix is no use on a screen.
constexpr size_t kMostClassesShown = 32;

std::string tell_of_text(Json& json, double loss, const Corpus& corpus, const Settings& settings) {
  const double bits_per_byte = loss / std::log(2.0) / validation_bytes_per_token(corpus, settings).value();
  const double baseline = trigram_loss(corpus, settings).value();
  json["bits_per_byte"] = bits_per_byte;
  json["loss"]["trigram"] = baseline;
  return fmt::format("{:.4f} bits per byte; trigram model on the same split: loss {:.4f}\n", bits_per_byte, baseline);
}

std::string tell_of_classes(Json& json, const training::Classification& classification, bool of_pixels) {
  json["accuracy"] = classification.top(1);
  json["top5"] = classification.top(5);
  json["samples"] = classification.samples();
  json["confusion"] = classification.confusion();
  std::string text;
  if (of_pixels)
    json["mean_iou"] = classification.mean_iou();
  else
    text = fmt::format("top-1 {:.2f} %, top-5 {:.2f} % of {} images\n", classification.top(1) * 100, classification.top(5) * 100,
                       classification.samples());
  return text + (classification.confusion().size() <= kMostClassesShown ? classification.table() : "");
}

/// What has no value without a validation split.
std::string tell_of_validation(Json& json, const Validation& validation, const Corpus& corpus, const Settings& settings) {
  json["loss"]["validation"] = nullptr;
  json["latency_ms"] = nullptr;
  json["samples_per_second"] = nullptr;
  if (!validation.classification) json["perplexity"] = nullptr;
  if (corpus.text) json["bits_per_byte"] = json["loss"]["trigram"] = nullptr;
  if (!validation.loss) return "";
  json["loss"]["validation"] = *validation.loss;
  if (!validation.classification) json["perplexity"] = std::exp(*validation.loss);
  json["latency_ms"] = validation.latency_seconds * 1e3;
  json["samples_per_second"] = validation.samples_per_second;
  std::string text;
  if (corpus.text) text += tell_of_text(json, *validation.loss, corpus, settings);
  if (validation.classification) text += tell_of_classes(json, *validation.classification, validation.of_pixels);
  return text + fmt::format("latency {:.1f} ms a mini-batch of {}, {:.0f} samples/s\n", validation.latency_seconds * 1e3,
                            settings.integer("train.batch"), validation.samples_per_second);
}

/// Without the memory of a search what was evaluated before is still told.
std::string tell_of_translations(Json& json, const parallel::Checkpoint& checkpoint, const Corpus& corpus, const Settings& settings) try {
  const TranslationScores scores = score_translations(checkpoint, corpus.parallel, settings, build_devices(settings));
  json["translation"] = translation_json(scores);
  return scores.table();
} catch (const OutOfMemory& error) {
  warn("no translations are scored: " + explain(error));
  json["translation"] = nullptr;
  return "";
}

/// Evaluation changes no weight: its trainer has an optimizer without states, and reads the averages as if they were the weights.
std::unique_ptr<parallel::Trainer> build_evaluator(const parallel::Checkpoint& checkpoint, const layers::Graph& graph,
                                                   const Settings& settings) {
  const SGD no_states({.momentum = 0});
  const bool averages = settings.number("optimizer.ema") > 0;
  parallel::TrainerOptions options = build_trainer_options(settings);
  if (averages) options.stochastic_rounding = false;  // training shows averages rounded to the nearest
  auto trainer = std::make_unique<parallel::Trainer>(graph, build_evaluation_plan(graph, settings, no_states), no_states, options);
  parallel::restore_weights(checkpoint, averages, *trainer);
  return trainer;
}

/// Where nobody asked for other data.
void warn_of_other_data(const parallel::Checkpoint& checkpoint, const Corpus& corpus, const std::vector<std::string>& assignments) {
  if (std::ranges::any_of(assignments, [](const std::string& assignment) { return assignment.starts_with("data."); })) return;
  if (const std::string told = training::told_of_other_data(checkpoint, training::data_hash_of(*corpus.dataset)); !told.empty()) warn(told);
}

AfterReading evaluate(const parallel::Checkpoint& checkpoint, const Arguments& arguments) {
  const Settings settings = settings_of(checkpoint, arguments.list("--set"));
  require_harmless({{"--json", arguments.text("--json")}}, files_read("", settings));
  const auto graph = build_graph(settings);
  const Corpus corpus = load_corpus(settings, preparation_of(checkpoint));
  warn_of_other_data(checkpoint, corpus, arguments.list("--set"));
  warn_of_other_classes(checkpoint, corpus);
  const Validation validation = validate(*build_evaluator(checkpoint, graph, settings), corpus, settings);  // its memory is free then
  Json json = {{"parameters", graph.parameter_count()}, {"steps", checkpoint.step}, {"weights_hash", checkpoint.weights_hash}};
  std::string details = tell_of_validation(json, validation, corpus, settings);
  if (corpus.parallel.tokenizer) details += tell_of_translations(json, checkpoint, corpus, settings);
  const std::string text = fmt::format("{}: {}\n{}", checkpoint.folder, describe(validation), details), file = arguments.text("--json");
  return [json, text, file] {
    tell(file == "-" ? stderr : stdout, text);
    write_json(json, file);
    return 0;
  };
}

}  // namespace

int run_eval(const Arguments& arguments) {
  return with_checkpoint(arguments.argument, parallel::Wanted::weights,
                         [&](const parallel::Checkpoint& checkpoint) { return evaluate(checkpoint, arguments); });
}

}  // namespace sluice::cli
