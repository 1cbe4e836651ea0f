#include "cli/validate.h"

#include <fmt/core.h>

#include <cmath>

#include "core/error.h"
#include "data/loader.h"
#include "data/ngram.h"

namespace sluice::cli {

namespace {

int64_t sample_limit(const Settings& settings) { return settings.integer("train.evaluate_batches") * settings.integer("train.batch"); }

}  // namespace

Validation validate(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings) {
  Validation validation;
  if (corpus.images) validation.classification.emplace(corpus.images->class_names());
  double loss = 0, weight = 0;
  for (const Batch& batch : data::validation_batches(corpus.dataset, settings.integer("train.batch"), sample_limit(settings))) {
    const auto result = trainer.evaluate(batch, validation.classification.has_value());
    loss += result.loss_sum;
    weight += result.weight;
    if (validation.classification) validation.classification->add(result.output, batch.load("label", 0, batch.samples));
  }
  validation.loss = loss / weight;
  return validation;
}

std::string describe(const Validation& validation) {
  const std::string loss = fmt::format("loss {:.4f}", validation.loss);
  if (!validation.classification) return fmt::format("{}, perplexity {:.2f}", loss, std::exp(validation.loss));
  return fmt::format("{}, accuracy {:.2f} % of {} pictures", loss, validation.classification->top(1) * 100,
                     validation.classification->samples());
}

double trigram_loss(const Corpus& corpus, const Settings& settings) {
  require(corpus.text != nullptr, "train.baseline: needs data.kind = \"text\"; set it to false");
  const data::Trigram trigram(corpus.text->tokens(), corpus.text->ranges(data::Split::train));
  const auto samples = data::validation_samples(*corpus.dataset, sample_limit(settings));
  return trigram.loss(*corpus.text, samples);
}

}  // namespace sluice::cli
