#include "training/metrics/chrf.h"

#include <string_view>

#include "core/error.h"
#include "training/metrics/ngrams.h"
#include "training/metrics/reference_sets.h"

namespace sluice::training {

namespace {

constexpr int64_t kCharacterOrders = 6, kWordOrders = 2;

int64_t word_orders(ChrfUnits units) { return units == ChrfUnits::characters ? 0 : kWordOrders; }

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// Words without the one punctuation mark that each may have at an end, which is a word of its own.
Units words_and_marks(std::string_view text) {
  std::vector<std::string> result;
  for (const auto word : split_white_space(text)) {
    const size_t cut = word.size() == 1                     ? 0
                       : is_ascii_punctuation(word.back())  ? word.size() - 1
                       : is_ascii_punctuation(word.front()) ? 1
                                                            : 0;
    if (cut > 0) result.emplace_back(word.substr(0, cut));
    result.emplace_back(word.substr(cut));
  }
  return words(result);
}

ChrfCounts count_order(const Units& hypothesis, const Units& reference, int64_t n) {
  const int64_t wanted = reference.ngrams(n);
  if (wanted == 0) return {};
  return {hypothesis.ngrams(n), wanted, shared_ngrams(count_ngrams(hypothesis, n), count_ngrams(reference, n))};
}

std::vector<ChrfCounts> count_orders(const std::string& hypothesis, const std::string& reference, ChrfUnits units) {
  std::vector<ChrfCounts> orders;
  const auto count = [&](const Units& ours, const Units& theirs, int64_t longest) {
    for (int64_t n = 1; n <= longest; ++n) orders.push_back(count_order(ours, theirs, n));
  };
  count(characters(hypothesis), characters(reference), kCharacterOrders);
  if (units == ChrfUnits::characters_and_words) count(words_and_marks(hypothesis), words_and_marks(reference), kWordOrders);
  return orders;
}

/// The order of these operations decides the last bits, and so ties between references.
double f_score(const std::vector<ChrfCounts>& orders) {
  double precision = 0, recall = 0;
  int seen = 0;
  for (const auto& counts : orders) {
    if (counts.hypothesis == 0 || counts.reference == 0) continue;
    precision += static_cast<double>(counts.matches) / static_cast<double>(counts.hypothesis);
    recall += static_cast<double>(counts.matches) / static_cast<double>(counts.reference);
    ++seen;
  }
  if (precision + recall == 0) return 0;
  precision /= seen;
  recall /= seen;
  return 100 * ((1 + 4) * precision * recall / (4 * precision + recall));
}

std::vector<ChrfCounts> best_counts(const std::string& hypothesis, std::span<const std::string> references, ChrfUnits units) {
  std::vector<ChrfCounts> best;
  double best_score = -1;
  for (const auto& reference : references) {
    auto orders = count_orders(hypothesis, reference, units);
    if (const double score = f_score(orders); score > best_score) {
      best_score = score;
      best = std::move(orders);
    }
  }
  return best;
}

}  // namespace

ChrfScore corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> reference_sets, ChrfUnits units) {
  check_reference_sets("corpus_chrf", hypotheses.size(), reference_sets);
  std::vector<ChrfCounts> sums(static_cast<size_t>(kCharacterOrders + word_orders(units)));
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const auto orders = best_counts(hypotheses[i], references_of(reference_sets, i), units);
    for (size_t order = 0; order < sums.size(); ++order) {
      sums[order].hypothesis += orders[order].hypothesis;
      sums[order].reference += orders[order].reference;
      sums[order].matches += orders[order].matches;
    }
  }
  return {f_score(sums), sums};
}

ChrfScore corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references, ChrfUnits units) {
  const std::vector<std::string> set(references.begin(), references.end());
  return corpus_chrf(hypotheses, {&set, 1}, units);
}

ChrfScore sentence_chrf(const std::string& hypothesis, std::span<const std::string> references, ChrfUnits units) {
  require(!references.empty(), "sentence_chrf: needs at least one reference, got none");
  const auto orders = best_counts(hypothesis, references, units);
  return {f_score(orders), orders};
}

std::string chrf_signature(ChrfUnits units, size_t references) {
  return join("nrefs:", references, "|case:mixed|eff:yes|nc:", kCharacterOrders, "|nw:", word_orders(units), "|space:no|version:2.6.0");
}

}  // namespace sluice::training
