#include "training/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "training/metrics/ngrams.h"
#include "training/metrics/reference_sets.h"
#include "training/metrics/tokenize_13a.h"

namespace sluice::training {

namespace {

/// The length closest to that of the hypothesis; of two equally close ones the shorter.
int64_t closest_length(int64_t length, const std::vector<Units>& references) {
  std::pair<int64_t, int64_t> best{INT64_MAX, 0};
  for (const auto& reference : references) best = std::min(best, {std::abs(reference.size() - length), reference.size()});
  return best.second;
}

/// Each n-gram as often as in the reference that has it most often.
NgramCounts most_in_one(const std::vector<Units>& references, int64_t n) {
  NgramCounts most;
  for (const auto& reference : references)
    for (const auto& [ngram, count] : count_ngrams(reference, n)) most[ngram] = std::max(most[ngram], count);
  return most;
}

void add_counts(const std::string& hypothesis, std::span<const std::string> references, BleuScore& counts) {
  const Units tokens = words(tokenize_13a(hypothesis));
  std::vector<Units> reference_tokens;
  for (const auto& reference : references) reference_tokens.push_back(words(tokenize_13a(reference)));
  counts.hypothesis_length += tokens.size();
  counts.reference_length += closest_length(tokens.size(), reference_tokens);
  for (int n = 1; n <= BleuScore::kOrders; ++n) {
    counts.totals[n - 1] += tokens.ngrams(n);
    counts.matches[n - 1] += shared_ngrams(count_ngrams(tokens, n), most_in_one(reference_tokens, n));
  }
}

double brevity_penalty(const BleuScore& counts) {
  if (counts.hypothesis_length >= counts.reference_length) return 1;
  if (counts.hypothesis_length == 0) return 0;
  return std::exp(1 - static_cast<double>(counts.reference_length) / static_cast<double>(counts.hypothesis_length));
}

/// Fills the precisions; returns how many n have n-grams.
int smooth_precisions(BleuScore& score) {
  double halvings = 1;
  for (int i = 0; i < BleuScore::kOrders; ++i) {
    if (score.totals[i] == 0) return i;
    const auto total = static_cast<double>(score.totals[i]);
    if (score.matches[i] == 0) halvings *= 2;
    score.precisions[i] = score.matches[i] == 0 ? 100 / (halvings * total) : 100 * static_cast<double>(score.matches[i]) / total;
  }
  return BleuScore::kOrders;
}

BleuScore score_counts(BleuScore score, bool effective_order) {
  score.brevity_penalty = brevity_penalty(score);
  if (std::all_of(score.matches.begin(), score.matches.end(), [](int64_t count) { return count == 0; })) return score;
  const int reached = smooth_precisions(score), orders = effective_order ? reached : BleuScore::kOrders;
  double sum = 0;
  for (int i = 0; i < orders; ++i) sum += score.precisions[i] == 0 ? -9999999999.0 : std::log(score.precisions[i]);
  score.score = score.brevity_penalty * std::exp(sum / orders);
  return score;
}

std::string bleu_signature(size_t references, const char* effective_order) {
  return join("nrefs:", references, "|case:mixed|eff:", effective_order, "|tok:13a|smooth:exp|version:2.6.0");
}

}  // namespace

BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> reference_sets) {
  check_reference_sets("corpus_bleu", hypotheses.size(), reference_sets);
  BleuScore counts;
  for (size_t i = 0; i < hypotheses.size(); ++i) add_counts(hypotheses[i], references_of(reference_sets, i), counts);
  return score_counts(counts, false);
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  const std::vector<std::string> set(references.begin(), references.end());
  return corpus_bleu(hypotheses, {&set, 1});
}

BleuScore sentence_bleu(const std::string& hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "sentence_bleu: needs at least one reference, got none");
  BleuScore counts;
  add_counts(hypothesis, references, counts);
  return score_counts(counts, true);
}

std::string corpus_bleu_signature(size_t references) { return bleu_signature(references, "no"); }
std::string sentence_bleu_signature(size_t references) { return bleu_signature(references, "yes"); }

}  // namespace sluice::training
