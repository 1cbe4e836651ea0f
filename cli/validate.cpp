#include "cli/validate.h"

#include "core/error.h"
#include "data/loader.h"
#include "data/ngram.h"

namespace sluice::cli {

namespace {

int64_t sample_limit(const Settings& settings) { return settings.integer("train.evaluate_batches") * settings.integer("train.batch"); }

}  // namespace

double validation_loss(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings) {
  double loss = 0, weight = 0;
  for (const Batch& batch : data::validation_batches(corpus.dataset, settings.integer("train.batch"), sample_limit(settings))) {
    const auto result = trainer.evaluate(batch);
    loss += result.loss_sum;
    weight += result.weight;
  }
  return loss / weight;
}

double trigram_loss(const Corpus& corpus, const Settings& settings) {
  require(corpus.text != nullptr, "train.baseline: needs data.kind = \"text\"; set it to false");
  const data::Trigram trigram(corpus.text->tokens(), corpus.text->ranges(data::Split::train));
  const auto samples = data::validation_samples(*corpus.dataset, sample_limit(settings));
  return trigram.loss(*corpus.text, samples);
}

}  // namespace sluice::cli
