#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::training {

/// BLEU and what it is made of; by n-gram length n = 1 to 4.
struct BleuScore {
  static constexpr int kOrders = 4;
  double score = 0;                          ///< 0 to 100
  double brevity_penalty = 0;                ///< exp(1 - r/c) for c < r tokens, 0 for c = 0 < r, else 1
  std::array<double, kOrders> precisions{};  ///< percent, smoothed
  std::array<int64_t, kOrders> matches{}, totals{};
  int64_t hypothesis_length = 0, reference_length = 0;  ///< c and r, tokens
};

/// BLEU = brevity penalty * exp(sum_n log p_n / 4) of a corpus, p_n = matches / totals, summed over all hypotheses. A match counts at most
/// as often as in the one reference that has it most often; r sums the reference lengths closest to the hypotheses' (the shorter on ties).
/// Tokens are tokenize_13a's. The k-th n without a match counts 1 / 2^k of one ("exp" smoothing).
/// Equal to sacreBLEU 2.6.0 in every bit, with a Python before 3.12, whose sum() began to round otherwise.
/// `reference_sets` has a string for each hypothesis in each set.
/// Errors  UsageError when a set has another size than `hypotheses`, or when there is no set.
/// Source  Papineni et al. 2002, ACL P02-1040; Post 2018, arXiv:1804.08771.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> reference_sets);
/// The same with one reference for each hypothesis.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references);

/// BLEU of one sentence over the n that it has n-grams for ("effective order"), against one or more references.
BleuScore sentence_bleu(const std::string& hypothesis, std::span<const std::string> references);

/// What was computed, in sacreBLEU's words; `references` is the number of references of each hypothesis.
std::string corpus_bleu_signature(size_t references = 1);
std::string sentence_bleu_signature(size_t references = 1);

}  // namespace sluice::training
