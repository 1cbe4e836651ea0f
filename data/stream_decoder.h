#pragma once
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace sluice::data {

/// The text of tokens that come one after another, a model's own say, for output as they come: all pieces together are what `decode` makes
/// of all tokens.
/// Cost     decodes all tokens for each one, as a token's text may depend on those before it.
/// Threads  one at a time. The tokenizer must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// The text that is certain now and was not before. A character that tokens spell byte by byte comes with its last byte.
  std::string add(std::span<const int32_t> tokens);
  std::string add(int32_t token) { return add(std::span(&token, 1)); }
  /// What is left when no token follows: U+FFFD for the bytes of a character that was not finished.
  std::string finish();

 private:
  std::string up_to(const std::string& text, size_t end);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
  size_t given_ = 0;  ///< bytes of the text
};

}  // namespace sluice::data
