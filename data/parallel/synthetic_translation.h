#pragma once
#include <memory>

#include "data/parallel/translation_dataset.h"

namespace sluice::data {

struct SyntheticTranslationOptions {
  int64_t languages = 3;               ///< target languages, all from one source language
  int64_t vocabulary = 64;             ///< ids in all
  int64_t shortest = 2, longest = 12;  ///< letters of a sentence
  int64_t buckets = 4;
  int64_t train_samples = 4096, validation_samples = 256;
  uint64_t seed = 0;
};

/// Translations that a rule makes, for tests and benchmarks, a function of the seed alone: the target is the source backwards, its letters
/// exchanged by a permutation that belongs to the language. Lengths are uniform; no source is in both splits.
///
/// Id 0 is padding and id 1 the end of a sentence, then come letters, then the tags: that of the source language, and of target language l
/// the l-th after it. The group of a sample is its language, from 0.
/// Errors  UsageError for options out of range, and for letters and lengths too few for the samples of a split.
std::shared_ptr<const TranslationDataset> synthetic_translation(const SyntheticTranslationOptions& options);

}  // namespace sluice::data
