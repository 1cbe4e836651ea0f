#pragma once
#include <rapidcheck.h>

namespace sluice::parallel {

/// Any of min .. end - 1, all equally likely: RapidCheck alone would stay near `min` for most of its cases.
inline int pick(int min, int end) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(min, end)); }

}  // namespace sluice::parallel
