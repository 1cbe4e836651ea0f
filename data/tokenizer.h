#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.h"

namespace sluice::data {

/// Turns text into token ids 0..vocabulary-1 and back.
/// Threads  const functions: any.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Errors  UsageError for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Bytes from which `load_tokenizer` makes an equal tokenizer: what a checkpoint keeps.
  virtual std::string serialized() const = 0;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

/// A token a byte. Any bytes come back as they were.
class ByteTokenizer : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int64_t vocabulary() const override { return 256; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string serialized() const override;
};

/// The tokenizer of a spec: "bytes"; "bpe", a byte-pair encoding with `vocabulary` pieces trained on the texts; or the path of a
/// SentencePiece .model file. The last and "bytes" have a vocabulary of their own. A trained one is kept in `cache_folder` under the hash
/// of texts and settings, and a damaged copy there is replaced; an empty `cache_folder` keeps nothing.
/// Errors  UsageError for an unknown spec (nearest named) or a vocabulary too small; DataError for a missing or damaged file, or a corpus
///         too small for the vocabulary; ResourceError when the cache cannot be written.
TokenizerPtr make_tokenizer(const std::string& spec, int64_t vocabulary, const std::vector<TextFile>& texts,
                            const std::string& cache_folder);

/// The tokenizer that `serialized` described. Errors  DataError when the bytes are damaged or of another kind.
TokenizerPtr load_tokenizer(std::string_view serialized);

}  // namespace sluice::data
