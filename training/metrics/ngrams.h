#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::training {

/// A text cut into units, which are characters or words, so that each of its n-grams is one view.
class Units {
 public:
  /// Appends a unit; `separator` keeps it apart from the next one.
  void add(std::string_view unit, std::string_view separator = {});

  int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
  /// How many n-grams there are.
  int64_t ngrams(int64_t n) const { return size() < n ? 0 : size() - n + 1; }
  /// Units first to first + n - 1.
  std::string_view ngram(int64_t first, int64_t n) const;

 private:
  std::string text_;
  std::vector<size_t> ends_{0};  ///< unit i is the bytes ends_[i] to ends_[i + 1]
};

/// How often each n-gram occurs. The keys are views of the units that were counted.
using NgramCounts = std::unordered_map<std::string_view, int64_t>;

NgramCounts count_ngrams(const Units& units, int64_t n);

/// sum_g min(a(g), b(g)): the n-grams that two texts share.
int64_t shared_ngrams(const NgramCounts& a, const NgramCounts& b);

/// The text's pieces between Unicode white space, as Python's str.split() gives them. They are views of `text`.
std::vector<std::string_view> split_white_space(std::string_view text);

/// `text` up to its last character that is not white space.
std::string_view without_trailing_white_space(std::string_view text);

/// The characters (code points) of `text` that are not white space. A byte that is not well-formed UTF-8 is a character of its own.
Units characters(std::string_view text);

/// Each word is a unit. Words hold no white space.
Units words(std::span<const std::string> words);

}  // namespace sluice::training
