#include "autograd/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace sluice {

namespace {

const std::vector<std::string> kKinds{"constant", "cosine", "inverse-sqrt", "exponential"};

double cosine(const LearningRate& rate, int64_t step) {
  const auto whole = static_cast<double>(std::max<int64_t>(1, rate.total_steps - rate.warmup_steps));
  const double part = std::min(1.0, static_cast<double>(step - rate.warmup_steps) / whole);
  return rate.minimum + (rate.base - rate.minimum) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

double after_warmup(const LearningRate& rate, int64_t step) {
  if (rate.kind == "cosine") return cosine(rate, step);
  if (rate.kind == "inverse-sqrt")
    return rate.base * std::sqrt(static_cast<double>(std::max<int64_t>(1, rate.warmup_steps)) / static_cast<double>(step + 1));
  if (rate.kind == "exponential") {
    const double times = static_cast<double>(step - rate.warmup_steps) / static_cast<double>(rate.decay_steps);
    return rate.base * std::pow(rate.decay, rate.staircase ? std::floor(times) : times);
  }
  return rate.base;
}

}  // namespace

void LearningRate::validate() const {
  if (std::ranges::find(kKinds, kind) == kKinds.end()) {
    const std::string nearest = nearest_word(kind, kKinds);
    throw UsageError(join("learning rate: needs a kind of constant, cosine, inverse-sqrt, exponential, got '", kind, "'",
                          nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  require(std::isfinite(base) && base >= 0, "learning rate: needs a base >= 0, got ", base);
  require(minimum >= 0 && minimum <= base, "learning rate: needs a minimum in [0, base], got ", minimum, " for base ", base);
  require(warmup_steps >= 0, "learning rate: needs warmup_steps >= 0, got ", warmup_steps);
  require(kind != "cosine" || total_steps > 0, "learning rate: cosine needs total_steps > 0, got ", total_steps);
  require(kind != "exponential" || (decay > 0 && decay <= 1 && decay_steps > 0),
          "learning rate: exponential needs 0 < decay <= 1 and decay_steps > 0, got ", decay, " and ", decay_steps);
}

double LearningRate::at(int64_t step) const {
  if (step < warmup_steps) return base * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  return std::max(minimum, after_warmup(*this, step));
}

}  // namespace sluice
