#pragma once
#include <string>

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
  /// A piece as it is written in the vocabulary, U+2581 for a space. Errors  UsageError for an id that is none.
  std::string piece(int32_t id) const;
  std::string model() const;        ///< the bytes of a .model file
  int32_t end_of_sentence() const;  ///< its id, a piece that no text has; -1 for a model without one

 private:
  std::string name_;
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
};

/// Whether a vocabulary has a piece for the end of a sentence: id 1, after the unknown piece 0.
enum class EndOfSentence { none, piece };

/// The smallest vocabulary that train_bpe takes.
int64_t fewest_pieces(EndOfSentence end);

/// A byte-pair encoding with byte fallback, a pure function of the texts, the vocabulary and its end of sentence. It reads an even sample
/// of the lines when the texts are long.
/// Errors  UsageError for a vocabulary too small for the bytes; DataError for texts that have more characters than the rest has room for, or
///         fewer pieces than it asks for.
TokenizerPtr train_bpe(int64_t vocabulary, const std::vector<TextFile>& texts, EndOfSentence end = EndOfSentence::none);

/// The same, kept in `cache_folder` as `make_tokenizer` says.
TokenizerPtr cached_bpe(int64_t vocabulary, const std::vector<TextFile>& texts, EndOfSentence end, const std::string& cache_folder);

/// All that the result of `train_bpe` depends on but the texts.
std::string bpe_settings(int64_t vocabulary, EndOfSentence end = EndOfSentence::none);

}  // namespace sluice::data
