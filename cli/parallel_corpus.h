#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "cli/config.h"
#include "data/parallel/translation_dataset.h"
#include "data/parallel/translation_split.h"

namespace sluice::cli {

/// Pairs of sentences to train a translation model on, and to test it with.
struct ParallelCorpus {
  /// What was read, filtered, by direction; of synthetic data none. Validation has no direction of a language that is not taught.
  data::TranslationSplit texts;
  std::shared_ptr<const data::MultilingualTokenizer> tokenizer;
  std::shared_ptr<const data::TranslationDataset> dataset;
  std::string summary;  ///< of what was read and left out, in lines; empty for synthetic data
};

/// What [data] describes for a translation model. `serialized_tokenizer`  that of a checkpoint; empty trains one.
/// Errors  UsageError naming the key and the cure; DataError for bad files.
ParallelCorpus load_parallel_corpus(const Settings& settings, const std::string& serialized_tokenizer);

}  // namespace sluice::cli
