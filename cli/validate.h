#pragma once
#include <memory>
#include <optional>

#include "cli/corpus.h"
#include "parallel/trainer.h"
#include "training/evaluation.h"
#include "training/metrics/classification.h"

namespace sluice::cli {

/// What a model makes of the validation split.
struct Validation : training::Evaluation {
  std::shared_ptr<training::Classification> classification;  ///< of images, or of their pixels; else null
  bool of_pixels = false;
};

/// The metric of a model of classes, which goes by the name "accuracy"; null for other models.
std::shared_ptr<training::Classification> classification_of(const Corpus& corpus);

/// An evaluation with what that metric has gathered in it.
Validation validation_of(const training::Evaluation& evaluation, const std::shared_ptr<training::Classification>& classification,
                         const Corpus& corpus);

/// Over train.evaluate_batches mini-batches spread over the validation split.
Validation validate(parallel::Trainer& trainer, const Corpus& corpus, const Settings& settings);

/// "loss 2.8504, perplexity 17.29", "no validation split", or with the accuracy for images, and the mean intersection over union for pixels.
std::string describe(const Validation& validation);

/// Errors  UsageError when there is no text that trigram_loss() could be computed of.
void require_text(const Corpus& corpus);

/// The loss of a smoothed trigram model, trained on the same training split, on the same validation samples.
/// Nothing without a validation split.
/// Errors  UsageError when the data are no text.
std::optional<double> trigram_loss(const Corpus& corpus, const Settings& settings);

}  // namespace sluice::cli
