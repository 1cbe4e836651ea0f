#include "tests/emulation/ranks.h"

#include <algorithm>

namespace sluice::emulation {

int Ranks::stuck() const {
  return static_cast<int>(std::ranges::count_if(seen_, [&](const auto& entry) { return entry.second == changes_; }));
}

void Ranks::reset() {
  seen_.clear();
  are_torn_down_ = false;
}

}  // namespace sluice::emulation
