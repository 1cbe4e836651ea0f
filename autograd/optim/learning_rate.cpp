#include "autograd/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace sluice {

namespace {

using Kind = LearningRate::Kind;

const std::vector<std::string> kWords{"constant", "cosine", "inverse-sqrt", "exponential"};  // in the order of Kind

double cosine(const LearningRate& rate, int64_t step) {
  const auto whole = static_cast<double>(std::max<int64_t>(1, rate.total_steps - rate.warmup_steps));
  const double part = std::min(1.0, static_cast<double>(step - rate.warmup_steps) / whole);
  return rate.minimum + (rate.base - rate.minimum) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

double after_warmup(const LearningRate& rate, int64_t step) {
  switch (rate.kind) {
    case Kind::constant:
      return rate.base;
    case Kind::cosine:
      return cosine(rate, step);
    case Kind::inverse_sqrt:
      return rate.base * std::sqrt(static_cast<double>(std::max<int64_t>(1, rate.warmup_steps)) / static_cast<double>(step + 1));
    case Kind::exponential: {
      const double times = static_cast<double>(step - rate.warmup_steps) / static_cast<double>(rate.decay_steps);
      return rate.base * std::pow(rate.decay, rate.staircase ? std::floor(times) : times);
    }
  }
  return rate.base;
}

}  // namespace

void LearningRate::validate() const {
  require(std::isfinite(base) && base >= 0, "learning rate: needs a base >= 0, got ", base);
  require(minimum >= 0 && minimum <= base, "learning rate: needs a minimum in [0, base], got ", minimum, " for base ", base);
  require(warmup_steps >= 0, "learning rate: needs warmup_steps >= 0, got ", warmup_steps);
  require(kind != Kind::cosine || total_steps > 0, "learning rate: cosine needs total_steps > 0, got ", total_steps);
  require(kind != Kind::exponential || (decay > 0 && decay <= 1 && decay_steps > 0),
          "learning rate: exponential needs 0 < decay <= 1 and decay_steps > 0, got ", decay, " and ", decay_steps);
}

double LearningRate::at(int64_t step) const {
  if (function) {
    const double rate = function(step);
    require(std::isfinite(rate) && rate >= 0, "learning rate: the function needs to give a finite rate >= 0, gave ", rate, " for step ",
            step);
    return rate;
  }
  if (step < warmup_steps) return base * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  return std::max(minimum, after_warmup(*this, step));
}

LearningRate::Kind rate_kind_named(const std::string& word) {
  const auto found = std::ranges::find(kWords, word);
  const std::string nearest = nearest_word(word, kWords);
  require(found != kWords.end(), "learning rate: needs one of constant, cosine, inverse-sqrt, exponential, got '", word, "'",
          nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  return static_cast<Kind>(found - kWords.begin());
}

}  // namespace sluice
