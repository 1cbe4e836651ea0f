#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.h"
#include "data/tokenizer.h"

namespace sluice::data {

/// A corpus as token ids, two bytes a token where the vocabulary allows, else four. A value: copies share the bytes, which are in
/// memory or a memory-mapped file.
///
/// File    a header of 96 bytes (magic, version, bytes a token, count, vocabulary, hash of the tokens, hash of the header so far), then the
///         tokens; little-endian.
/// Threads any; nothing is written after construction.
class Tokens {
 public:
  /// Errors  UsageError for an id outside 0..vocabulary-1.
  static Tokens of(std::span<const int32_t> ids, int64_t vocabulary);
  /// Maps a file, and checks all of it. Errors  DataError when it is missing, cut, too long or damaged, or of another kind or version.
  static Tokens open(const std::string& path);
  /// Errors  ResourceError when the file cannot be written.
  void save(const std::string& path) const;

  int64_t size() const { return size_; }
  int64_t vocabulary() const { return vocabulary_; }
  int32_t operator[](int64_t index) const {
    if (width_ == 2) return static_cast<const uint16_t*>(ids_)[index];
    return static_cast<int32_t>(static_cast<const uint32_t*>(ids_)[index]);
  }

 private:
  /// `owner` keeps `image`, the bytes of a checked file, alive.
  Tokens(std::shared_ptr<const void> owner, std::string_view image);

  std::shared_ptr<const void> owner_;
  std::string_view image_;
  const void* ids_;
  int width_;
  int64_t size_;
  int64_t vocabulary_;
};

/// The texts one after the other, an empty line between them, as tokens. They are kept in `cache_folder` under the hash of texts and
/// tokenizer, and a damaged copy there is replaced; an empty `cache_folder` keeps them in memory only.
/// Errors  ResourceError when the cache cannot be written.
Tokens tokenize(const std::vector<TextFile>& texts, const Tokenizer& tokenizer, const std::string& cache_folder);

}  // namespace sluice::data
