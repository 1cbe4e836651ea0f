#pragma once
#include <string>
#include <vector>

#include "cli/corpus.h"
#include "cli/translation.h"

namespace sluice::cli {

/// How well a model translates held-out pairs of one direction, beside two translations that know no language.
struct DirectionScores {
  std::string from, to;
  int64_t pairs = 0;
  double bleu = 0, chrf = 0;
  double copy_chrf = 0;       ///< of the source as it is
  double neighbour_chrf = 0;  ///< of the translation of the most similar training source (training::NearestNeighbour)
  bool is_above_both() const { return chrf > copy_chrf && chrf > neighbour_chrf; }
};

struct TranslatedPair {
  std::string from, to, source, reference, translation;
};

struct TranslationScores {
  std::vector<DirectionScores> directions;
  std::vector<TranslatedPair> examples;  ///< ten, spread over the directions
  DirectionScores mean() const;
  int64_t above_both() const;
  /// A row a direction, below the columns' names and above the mean: what the program's table and the report's show.
  std::vector<std::vector<std::string>> rows() const;
  /// What stands below the rows: the examples, and how BLEU and chrF were computed.
  std::string notes() const;
  /// Both as text.
  std::string table() const;
};

/// Translates `data.test_pairs` pairs of each direction of the validation split with the model of a checkpoint.
/// Errors  as TextTranslator.
TranslationScores score_translations(const parallel::Checkpoint& checkpoint, const ParallelCorpus& corpus, const Settings& settings,
                                     const std::vector<DevicePtr>& devices);

}  // namespace sluice::cli
