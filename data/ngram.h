#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/language_dataset.h"
#include "data/text_dataset.h"

namespace sluice::data {

/// Counts by 64-bit key, in an open-addressed table of a power of two slots.
class CountTable {
 public:
  void increment(uint64_t key);
  uint32_t count(uint64_t key) const;

 private:
  struct Entry {
    uint64_t key;
    uint32_t count;  ///< 0 marks a free slot
  };
  size_t slot_of(uint64_t key) const;
  void grow();
  std::vector<Entry> entries_ = std::vector<Entry>(1024);
  size_t used_ = 0;
};

/// The baseline that a language model has to beat: an interpolated trigram model,
///   P_n(w | h_n) = l c(h_n w) / c(h_n) + (1 - l) P_{n-1}(w | h_{n-1}),   P_{-1} = 1 / vocabulary,
/// over histories h_n of n = 0, 1, 2 tokens. The weight l depends on n and on the magnitude of c(h_n). Weights are fitted by expectation
/// maximisation on the last tenth of each training range, which then joins the counts. Validation text is not seen.
/// Cost    one table entry a distinct trigram, and 4 bytes a token of the ranges while it is made; seconds for ten million tokens.
/// Source  Jelinek and Mercer 1980, "Interpolated estimation of Markov source parameters from sparse data".
class Trigram {
 public:
  static constexpr int kOrders = 3;  ///< unigram, bigram, trigram

  /// Errors  UsageError for a vocabulary above 2^21.
  Trigram(const Tokens& tokens, std::span<const TokenRange> ranges);

  /// P(next | the last order - 1 tokens of history), or fewer where history is shorter.
  double probability(std::span<const int32_t> history, int32_t next, int order = kOrders) const;

  /// Mean loss in nats a token over the targets of validation samples. The model sees what a neural one sees: the tokens of the window.
  double loss(const LanguageDataset& dataset, std::span<const int64_t> samples, int order = kOrders) const;

 private:
  static constexpr int kMagnitudes = 33;
  struct Observation {
    double estimate, lower;  ///< relative frequency, and what the shorter history says
    int magnitude;
  };
  uint64_t history_key(std::span<const int32_t> history, int length) const;
  void count(std::span<const int32_t> ids, size_t begin, size_t end);
  void fit(int length, std::span<const std::vector<int32_t>> runs);

  int64_t vocabulary_;
  std::array<CountTable, kOrders> histories_, grams_;
  std::array<std::array<double, kMagnitudes>, kOrders> weights_{};
};

}  // namespace sluice::data
