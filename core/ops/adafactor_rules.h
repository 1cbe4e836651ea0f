#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/host_device.h"
#include "core/ops/adafactor_step.h"

/// The arithmetic of adafactor_step, written once for CPU and CUDA kernels.
namespace sluice::rules {

/// The numbers of a step that all elements share, made once on the host.
struct AdafactorFactors {
  double taken, rate, shrink, least_scale, threshold;

  AdafactorFactors(const AdafactorStep& step, bool decays)
      : taken(std::pow(static_cast<double>(step.step), -step.decay)),
        rate(std::min(step.learning_rate, 1 / std::sqrt(static_cast<double>(step.step)))),
        shrink(decays ? 1 - step.learning_rate * step.weight_decay : 1),
        least_scale(step.least_scale),
        threshold(step.threshold) {}

  /// What u is multiplied by, of the sums over so many elements.
  SLUICE_HD double scale(double update_squares, double parameter_squares, double elements) const {
    const double update = std::sqrt(update_squares / elements) / threshold, parameter = std::sqrt(parameter_squares / elements);
    return rate * (parameter > least_scale ? parameter : least_scale) / (update > 1 ? update : 1);
  }
};

/// (1 - taken) average + taken of what is new.
template <class T>
SLUICE_HD T averaged(T average, T now, double taken) {
  return average + static_cast<T>(taken) * (now - average);
}

template <class T>
inline constexpr T kAdafactorLeast = std::numeric_limits<T>::epsilon();

/// u before its RMS is limited.
template <class T>
SLUICE_HD T adafactor_update(T gradient, T square) {
  constexpr T least = kAdafactorLeast<T> * kAdafactorLeast<T>;
  return gradient / std::sqrt(square > least ? square : least);
}

}  // namespace sluice::rules
