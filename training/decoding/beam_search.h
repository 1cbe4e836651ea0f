#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::training {

struct BeamSearchOptions {
  int64_t vocabulary = 0;
  int32_t begin_token = 0;
  int32_t end_token = 0;
  int64_t beams = 4;             ///< 1 = greedy
  double length_penalty = 0.6;   ///< alpha of the score; 0 = the log-probability itself
  int64_t max_length = 256;      ///< most tokens of a hypothesis, the end token included
  std::vector<int32_t> never{};  ///< tokens that no hypothesis has, such as padding
};

/// A whole output sentence.
struct Hypothesis {
  std::vector<int32_t> tokens;  ///< without begin and end
  double log_probability = 0;   ///< sum over the tokens, the end token included
  double score = 0;             ///< log_probability / ((5 + length) / 6)^alpha; length counts the end token
  bool ended = false;           ///< false: cut at max_length before the end token came
  bool operator==(const Hypothesis&) const = default;
};

/// Beam search for one sentence, as a state machine: it names the rows that a model has to extend, the caller runs the model, for several
/// searches in one batch if it likes, and hands back what the model says.
///
///     while (!search.done()) {
///       // row i: feed rows()[i].token after the cache of row rows()[i].parent of the last turn
///       search.advance(log_probabilities(logits, vocabulary));
///     }
///
/// A turn ranks all continuations of the live beams by log-probability. Those of the first `beams` that end are finished; the first `beams`
/// of the others are the next live beams. Equal ones rank by beam, then by token id. The search is done when `beams` hypotheses are
/// finished, when they have max_length tokens, or when no live beam can win: a log-probability L <= 0 only falls, so what grows from it
/// scores at most L / ((5 + max_length) / 6)^alpha, and a finished hypothesis has that much already.
/// Finished hypotheses never compete with live beams for a place. Live beams that reach max_length count only when none has ended.
/// Threads one.
/// Cost    a turn reads [rows, vocabulary] once; memory O(beams * max_length).
/// Source  Wu et al. 2016, arXiv:1609.08144, equation 14 (the score, without coverage).
class BeamSearch {
 public:
  /// Errors  UsageError for options out of their range.
  explicit BeamSearch(BeamSearchOptions options);

  struct Row {
    int32_t token;   ///< the last token of the beam
    int64_t parent;  ///< index, in the rows of the turn before, of the beam that it continues
    bool operator==(const Row&) const = default;
  };
  /// What to extend next, best beam first; empty when done. The first turn has one row: the begin token, parent 0.
  const std::vector<Row>& rows() const { return rows_; }

  /// Takes log p(next token | row), natural logarithms.
  /// Shape   [rows, vocabulary]
  /// Errors  UsageError when the search is done, or for another number of elements;
  ///         Error for a value that is not finite or is above 0. The search then stays as it was.
  void advance(std::span<const float> log_probabilities);

  bool done() const { return rows_.empty(); }

  /// The hypothesis with the highest score, the first found on ties.
  /// Errors  UsageError before the search is done.
  Hypothesis best() const;
  /// At most `beams` hypotheses, best first.
  std::vector<Hypothesis> hypotheses() const;

 private:
  struct Beam {
    std::vector<int32_t> tokens;
    double log_probability = 0;
  };
  struct Continuation {
    double log_probability;
    int64_t beam;
    int32_t token;
  };
  static bool ranks_before(const Continuation& a, const Continuation& b);
  void check(std::span<const float> log_probabilities) const;
  std::vector<Continuation> best_continuations(std::span<const float> log_probabilities) const;
  Hypothesis finish(std::vector<int32_t> tokens, double log_probability, bool ended) const;
  bool is_over() const;

  BeamSearchOptions options_;
  std::vector<bool> allowed_;  ///< by token
  std::vector<Beam> live_{Beam{}};
  std::vector<Hypothesis> finished_;
  std::vector<Row> rows_;
  int64_t length_ = 0;  ///< tokens of each live beam
};

/// log p = x - log sum_j exp(x_j) of each row, in row order, with the maximum taken out and sums in f64; rounded to f32 once.
/// Shape   logits [rows, vocabulary] -> the same
/// Errors  UsageError when the elements are no whole number of rows.
std::vector<float> log_probabilities(std::span<const float> logits, int64_t vocabulary);

}  // namespace sluice::training
