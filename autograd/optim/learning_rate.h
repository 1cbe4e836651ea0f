#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// How the step size runs over the steps: a linear warm-up from 0, then one of
///   constant       base
///   cosine         half a cosine from base to minimum at total_steps, minimum from there on
///   inverse-sqrt   base sqrt(w / (step + 1)), w = max(1, warmup_steps): meets the warm-up at its end
///   exponential    base decay^((step - warmup_steps) / decay_steps); with `staircase` the exponent is rounded down
/// and never below `minimum` after the warm-up. The last warm-up step has the full base. Or what a function says of every step.
/// Source  warm-up and inverse-sqrt: Vaswani et al. 2017, arXiv:1706.03762; cosine: Loshchilov & Hutter 2016, arXiv:1608.03983.
struct LearningRate {
  enum class Kind { constant, cosine, inverse_sqrt, exponential };

  double base = 1e-3;
  Kind kind = Kind::constant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  ///< of the run; needed by cosine
  double minimum = 0;
  double decay = 0.97;
  int64_t decay_steps = 1;
  bool staircase = false;
  /// The rate of a step, counted from 0, in place of all that the others say. A pure function: a training that is resumed asks it again.
  std::function<double(int64_t)> function{};

  /// Errors  UsageError for a field out of its range.
  void validate() const;
  /// The rate of a step, counted from 0. The fields must be valid.
  /// Errors  UsageError when the function gives no finite number >= 0, naming the step.
  double at(int64_t step) const;
};

/// "constant", "cosine", "inverse-sqrt" or "exponential", as configs write it. Errors  UsageError for another word (naming the nearest).
LearningRate::Kind rate_kind_named(const std::string& word);

}  // namespace sluice
