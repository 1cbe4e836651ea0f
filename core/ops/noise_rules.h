#pragma once
#include <limits>

#include "core/distributions.h"
#include "core/ops/noise.h"

namespace sluice {

/// What all of its numbers are below.
SLUICE_HD inline double end_of(Noise kind) { return kind == Noise::uniform ? 1 : std::numeric_limits<double>::infinity(); }

/// The numbers of one block of four words.
SLUICE_HD inline std::array<double, 4> noise_from(Noise kind, const std::array<uint32_t, 4>& words) {
  if (kind == Noise::normal) return normal_from(words, 0, 1);
  return {uniform_from(words[0]), uniform_from(words[1]), uniform_from(words[2]), uniform_from(words[3])};
}

}  // namespace sluice
