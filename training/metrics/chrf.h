#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::training {

enum class ChrfUnits {
  characters,            ///< chrF: character n-grams, n = 1 to 6
  characters_and_words,  ///< chrF++: word n-grams, n = 1 and 2, besides
};

/// N-grams of one length: those of the hypotheses, of the references, and of both.
struct ChrfCounts {
  int64_t hypothesis = 0, reference = 0, matches = 0;
  bool operator==(const ChrfCounts&) const = default;
};

struct ChrfScore {
  double score = 0;                ///< 0 to 100
  std::vector<ChrfCounts> orders;  ///< lengths of character n-grams, then of word n-grams
};

/// chrF = 100 * 5PR / (4P + R) of a corpus: P and R are the means of precision and recall over the lengths that hypotheses and references
/// have n-grams of; n-grams are summed over all hypotheses first. Characters are code points, without white space; words have one ASCII
/// punctuation mark cut off their end, or else their start. Of several references the one with the best score counts (the first on ties).
/// Equal to sacreBLEU 2.6.0 in every bit. `reference_sets` has a string for each hypothesis in each set.
/// Errors  UsageError when a set has another size than `hypotheses`, or when there is no set.
/// Source  Popovic 2015, ACL W15-3049; Popovic 2017, ACL W17-4770 (chrF++).
ChrfScore corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> reference_sets,
                      ChrfUnits units = ChrfUnits::characters);
/// The same with one reference for each hypothesis.
ChrfScore corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      ChrfUnits units = ChrfUnits::characters);

/// chrF of one sentence against one or more references.
ChrfScore sentence_chrf(const std::string& hypothesis, std::span<const std::string> references, ChrfUnits units = ChrfUnits::characters);

/// What was computed, in sacreBLEU's words; `references` is the number of references of each hypothesis.
std::string chrf_signature(ChrfUnits units = ChrfUnits::characters, size_t references = 1);

}  // namespace sluice::training
