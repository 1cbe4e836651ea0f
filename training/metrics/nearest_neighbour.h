#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::training {

/// The baseline that a translation model has to beat: the translation of the training sentence that looks most like the query. Alike is the
/// F-score of character n-grams, n = 1 to 4, without white space:
///   F(q, s) = 2 * sum_g min(q(g), s(g)) / (sum_g q(g) + sum_g s(g)),   0 to 1.
/// Of equally near sentences the first wins.
/// Cost    a table entry for each distinct n-gram of a source; a query visits the sources that share its n-grams.
/// Threads queries may run at the same time.
class NearestNeighbour {
 public:
  /// Pairs of one language: targets[i] translates sources[i].
  /// Errors  UsageError when there is no pair, or the numbers differ.
  NearestNeighbour(const std::vector<std::string>& sources, std::vector<std::string> targets);

  struct Match {
    size_t pair = 0;
    double score = 0;  ///< F; 0 when no source shares a character with the query, then the pair is the first
  };
  Match find(std::string_view source) const;
  const std::string& translate(std::string_view source) const { return targets_[find(source).pair]; }

 private:
  struct Index;
  std::vector<std::string> targets_;
  std::shared_ptr<const Index> index_;  ///< of the sources
};

}  // namespace sluice::training
