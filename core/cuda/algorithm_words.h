#pragma once
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::cublas {

/// A cublasLtMatmulAlgo_t, which cuBLAS lets programs store for use with the same version of the library.
using AlgorithmWords = std::array<uint64_t, 8>;

/// 128 hexadecimal digits.
inline std::string text_of(const AlgorithmWords& words) {
  std::string text;
  for (const uint64_t word : words)
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

/// Nothing for a text of another form.
inline std::optional<AlgorithmWords> words_of(const std::string& text) {
  constexpr size_t kDigits = 16;  // of a word
  AlgorithmWords words{};
  if (text.size() != words.size() * kDigits) return std::nullopt;
  for (size_t i = 0; i < words.size(); ++i) {
    const char *begin = text.data() + i * kDigits, *end = begin + kDigits;
    if (std::from_chars(begin, end, words[i], 16).ptr != end) return std::nullopt;
  }
  return words;
}

}  // namespace sluice::cublas
