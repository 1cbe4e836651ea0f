#pragma once

namespace sluice::parallel {

/// What one rank wants of all between two steps: they agree upon it.
struct Wish {
  int signal = 0;     ///< that asks for the end, or 0; of several the largest
  bool save = false;  ///< a checkpoint; the root's counts
};

}  // namespace sluice::parallel
