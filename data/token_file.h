#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/text_files.h"
#include "data/tokenizer.h"

namespace sluice::data {

/// A corpus as token ids, two bytes a token where the vocabulary allows, else four. A value: copies share the bytes, which are in
/// memory or in a file, of which a run is read when it is asked for.
///
/// File    a header of 96 bytes (magic, version, bytes a token, count, vocabulary, hash of the tokens, hash of the header so far), then the
///         tokens; little-endian.
/// Threads any; nothing is written after construction.
class Tokens {
 public:
  /// Errors  UsageError for an id outside 0..vocabulary-1.
  static Tokens of(std::span<const int32_t> ids, int64_t vocabulary);
  /// Opens a file, and checks all of it. Errors  DataError when it is missing, cut, too long or damaged, or of another kind or version.
  static Tokens open(const std::string& path);
  /// Errors  ResourceError when the file cannot be written.
  void save(const std::string& path) const;

  int64_t size() const { return size_; }
  int64_t vocabulary() const { return vocabulary_; }
  /// The ids from `first` on, as many as `ids` has room for.
  /// Errors  UsageError for a run that is not within the tokens; DataError when the file cannot be read, or was cut since it was opened.
  void read(int64_t first, std::span<int32_t> ids) const;
  /// Those of begin .. end-1, with the same errors.
  std::vector<int32_t> run(int64_t begin, int64_t end) const;

 private:
  /// Reads bytes of a checked file, which it keeps.
  using ReadAt = std::function<void(int64_t offset, void* into, size_t bytes)>;
  explicit Tokens(ReadAt read_at);

  ReadAt read_at_;
  uint32_t width_;
  int64_t size_;
  int64_t vocabulary_;
};

/// The texts one after the other, an empty line between them, as tokens. They are kept in `cache_folder` under the hash of texts and
/// tokenizer, and a damaged copy there is replaced; an empty `cache_folder` keeps them in memory only.
/// Errors  ResourceError when the cache cannot be written.
Tokens tokenize(const std::vector<TextFile>& texts, const Tokenizer& tokenizer, const std::string& cache_folder);

}  // namespace sluice::data
