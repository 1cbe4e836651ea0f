#pragma once
#include <filesystem>
#include <span>

#include "data/parallel/parallel_text.h"
#include "data/sentencepiece_tokenizer.h"

namespace sluice::data {

/// One SentencePiece vocabulary for all languages, then a tag of each language: tag i of the sorted languages has id pieces + i.
///
/// The unknown piece 0 stands for padding too, which the lengths of a batch mask; the end of a sentence is a piece, id 1 in what
/// `train_multilingual` makes. Text never gives a tag or the end, and decoding drops both.
/// Threads  const functions: any.
class MultilingualTokenizer : public Tokenizer {
 public:
  /// Errors  UsageError for no language, an empty one, one twice or one with white space; DataError for pieces without an end of sentence.
  MultilingualTokenizer(SentencePieceTokenizer pieces, std::vector<std::string> languages);

  std::string name() const override { return "multilingual"; }
  int64_t vocabulary() const override { return pieces_.vocabulary() + static_cast<int64_t>(languages_.size()); }  ///< pieces and languages
  std::vector<int32_t> encode(std::string_view text) const override { return pieces_.encode(text); }
  std::string decode(std::span<const int32_t> ids) const override;
  std::string serialized() const override;

  const std::vector<std::string>& languages() const { return languages_; }
  int32_t end_of_sentence() const { return pieces_.end_of_sentence(); }
  /// An id as people read it: a piece, U+2581 for a space in it, or "<de>" for a language's tag. Errors  UsageError for an id that is none.
  std::string piece(int32_t id) const;
  /// The tag of a language. Errors  UsageError for one that is not there, with the nearest.
  int32_t language_id(const std::string& language) const;
  /// What an encoder reads: the tags of both languages, the text, the end.
  std::vector<int32_t> encode_source(const std::string& source_language, const std::string& target_language, std::string_view text) const;
  /// What a decoder learns: the tag of the language, the text, the end. It sees all but the last id and predicts all but the first.
  std::vector<int32_t> encode_target(const std::string& language, std::string_view text) const;

 private:
  void require_id(int32_t id) const;
  SentencePieceTokenizer pieces_;
  std::vector<std::string> languages_;
};

/// A tokenizer with `vocabulary` ids, tags included, for the languages of the texts. Its pieces are learnt from both sides of all pairs, as
/// much text as there is, at most 16 MiB: of language l, which has n_l bytes of distinct strings, a share in proportion to
/// n_l^(1/temperature), so that small languages get pieces too. It is a pure function of its arguments; for the cache see `make_tokenizer`.
/// Errors  UsageError for a temperature below 1, and as `train_bpe`.
std::shared_ptr<const MultilingualTokenizer> train_multilingual(int64_t vocabulary, std::span<const ParallelText> texts, double temperature,
                                                                const std::filesystem::path& cache_folder);

}  // namespace sluice::data
