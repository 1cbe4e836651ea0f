#pragma once
#include <string>
#include <vector>

namespace sluice::data {

/// A sentence and its translation.
struct TextPair {
  std::string source, target;
  bool operator==(const TextPair&) const = default;
};

/// Pairs of one direction. Languages are tags such as "en", "de" or "pt_BR".
struct ParallelText {
  std::string source_language, target_language;
  std::vector<TextPair> pairs;
};

}  // namespace sluice::data
