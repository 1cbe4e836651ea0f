#pragma once
#include "data/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace sluice::data {

/// A SentencePiece model. Text is encoded a line at a time, so memory stays bounded; very long lines are cut at a space.
///
/// Models made by `train_bpe` give back every text but one character: SentencePiece writes a space as U+2581, which so comes back as a
/// space. Models from elsewhere keep their own normalisation, and may lose white space.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// Errors  DataError, with `name` as the subject, when `model` is no whole SentencePiece model.
  SentencePieceTokenizer(std::string name, std::string_view model);

  std::string name() const override { return name_; }
  int64_t vocabulary() const override;
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string serialized() const override;
  std::string model() const;  ///< the bytes of a .model file

 private:
  std::string name_;
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
};

/// A byte-pair encoding with byte fallback, a pure function of the texts and the vocabulary. It reads an even sample of the lines when
/// the texts are long.
/// Errors  UsageError for a vocabulary too small for the bytes and characters; DataError for texts too short for it.
TokenizerPtr train_bpe(int64_t vocabulary, const std::vector<TextFile>& texts);

/// All that the result of `train_bpe` depends on but the texts.
std::string bpe_settings(int64_t vocabulary);

}  // namespace sluice::data
