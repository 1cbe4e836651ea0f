#pragma once
#include <functional>
#include <optional>

#include "cli/classification.h"
#include "cli/corpus.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// What a model makes of the validation split.
struct Validation {
  std::optional<double> loss;                    ///< mean, in nats a token or an image; nothing without a validation split
  std::optional<Classification> classification;  ///< of images, or of their pixels
  bool of_pixels = false;
  bool is_complete = true;        ///< false when it was stopped: then the numbers are of a part of the split
  double latency_seconds = 0;     ///< of a mini-batch through the pipeline, forward only: the median
  double samples_per_second = 0;  ///< of all mini-batches, loading left out
};

/// Over train.evaluate_batches mini-batches spread over the validation split, or until `stop` says so.
Validation validate(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings, const std::function<bool()>& stop = {});

/// "loss 2.8504, perplexity 17.29", "no validation split", or with the accuracy for images, and the mean intersection over union for pixels.
std::string describe(const Validation& validation);

/// Errors  UsageError when there is no text that trigram_loss() could be computed of.
void require_text(const Corpus& corpus);

/// The loss of a smoothed trigram model, trained on the same training split, on the same validation samples.
/// Nothing without a validation split.
/// Errors  UsageError when the data are no text.
std::optional<double> trigram_loss(const Corpus& corpus, const Settings& settings);

}  // namespace sluice::cli
