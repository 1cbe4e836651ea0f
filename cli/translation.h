#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/config.h"
#include "data/parallel/multilingual_tokenizer.h"
#include "parallel/checkpoint.h"
#include "training/decoding/translator.h"

namespace sluice::cli {

/// How translations are searched for.
struct TranslationSearch {
  int64_t beams = 4;
  double length_penalty = 0.6;
  int64_t sentences = 8;  ///< searched together; twice as many are in the pipeline
};

/// A trained translation model that takes and gives text.
class TextTranslator {
 public:
  /// Errors  UsageError for a model that does not translate texts.
  TextTranslator(const parallel::Checkpoint& checkpoint, const Settings& settings, const TranslationSearch& search,
                 const std::vector<DevicePtr>& devices);

  /// Tokens of what the model reads. Errors  DataError with `place` as its subject for malformed UTF-8 and more tokens than the model takes.
  training::Translator::Sentence sentence(const std::string& text, const std::string& from, const std::string& to,
                                          const std::string& place) const;
  /// Calls `emit` for each sentence in order.
  void translate(const std::vector<training::Translator::Sentence>& sentences,
                 const std::function<void(size_t number, const std::string& text)>& emit);

  const data::MultilingualTokenizer& tokenizer() const { return *tokenizer_; }
  const training::Translator& translator() const { return *translator_; }

 private:
  std::shared_ptr<const data::MultilingualTokenizer> tokenizer_;
  std::unique_ptr<training::Translator> translator_;
};

}  // namespace sluice::cli
