#include "cli/validate.h"

#include <fmt/core.h>

#include <cmath>

#include "core/error.h"
#include "data/loader.h"
#include "data/ngram.h"

namespace sluice::cli {

std::shared_ptr<training::Classification> classification_of(const Corpus& corpus) {
  return corpus.class_names.empty() ? nullptr : std::make_shared<training::Classification>(corpus.class_names, corpus.labels);
}

Validation validation_of(const training::Evaluation& evaluation, const std::shared_ptr<training::Classification>& classification,
                         const Corpus& corpus) {
  return {evaluation, classification, corpus.labels == "mask"};
}

Validation validate(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings) {
  data::LoaderOptions loading;
  loading.threads = static_cast<int>(settings.integer("data.threads"));
  data::ValidationLoader batches(corpus.dataset, validation_sampler(corpus, settings), loading);
  const auto classification = classification_of(corpus);
  std::map<std::string, std::shared_ptr<training::Metric>> metrics;
  if (classification) metrics["accuracy"] = classification;
  return validation_of(training::evaluate(trainer, batches, metrics), classification, corpus);
}

std::string describe(const Validation& validation) {
  if (!validation.loss) return "no validation split";
  const std::string loss = "loss " + training::number_text(*validation.loss, 4);
  if (!validation.classification) return fmt::format("{}, perplexity {}", loss, training::number_text(std::exp(*validation.loss), 2));
  const training::Classification& classification = *validation.classification;
  const std::string accuracy = fmt::format("{}, accuracy {:.2f} % of {} {}", loss, classification.top(1) * 100, classification.samples(),
                                           validation.of_pixels ? "pixels" : "images");
  return validation.of_pixels ? fmt::format("{}, mean IoU {:.2f} %", accuracy, classification.mean_iou() * 100) : accuracy;
}

void require_text(const Corpus& corpus) { require(corpus.text != nullptr, "train.baseline: needs data.kind = \"text\"; set it to false"); }

std::optional<double> trigram_loss(const Corpus& corpus, const Settings& settings) {
  require_text(corpus);
  const data::Trigram trigram(corpus.text->tokens(), corpus.text->ranges(data::Split::train));
  const auto samples = data::validation_samples(*corpus.dataset, validation_limit(settings));
  return samples.empty() ? std::nullopt : std::optional(trigram.loss(*corpus.text, samples));
}

}  // namespace sluice::cli
