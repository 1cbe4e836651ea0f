#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/parallel/parallel_text.h"

namespace sluice::data {

/// Which directions are learnt from texts that all have one source language.
enum class Directions {
  forward,   ///< as given
  backward,  ///< from each target language into the source language
  both
};

struct TranslationSplitOptions {
  double validation_fraction = 0.02;
  uint64_t seed = 0;
  Directions directions = Directions::forward;
};

struct TranslationSplit {
  std::vector<ParallelText> train, validation;  ///< one text for each direction, with the same directions in both
  int64_t overlapping = 0;                      ///< training pairs left out, because a side of theirs is a validation source
};

/// Whether a string is held out: a hash of it, seeded, falls below the fraction.
bool is_held_out(std::string_view source, double fraction, uint64_t seed);

/// Splits by source string: a pair is held out when its source is, whatever the language, so no source string of validation is on either
/// side of a training pair of any language. With `backward` or `both`, whose sources are translations too, that takes out training
/// pairs; they are counted. Texts that come to one direction, such as en-de and de-en with `both`, become one.
/// Errors  UsageError for a fraction outside [0, 0.5].
TranslationSplit split_by_source(std::vector<ParallelText> texts, const TranslationSplitOptions& options);

}  // namespace sluice::data
