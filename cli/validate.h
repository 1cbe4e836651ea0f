#pragma once
#include "cli/build.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// Mean validation loss in nats a token, over train.evaluate_batches mini-batches spread over the validation split.
double validation_loss(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings);

/// The loss of a smoothed trigram model, trained on the same training split, on the same validation samples.
/// Errors  UsageError when the data are no text.
double trigram_loss(const Corpus& corpus, const Settings& settings);

}  // namespace sluice::cli
