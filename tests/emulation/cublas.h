#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::emulation {

/// What the emulated cuBLAS is like, and what was done with it. Its algorithms, "algorithm 0" and so on, give equal bits.
struct Cublas {
  std::mutex mutex;                      ///< guards the rest
  std::vector<double> seconds = {2, 1};  ///< that trials of its algorithms find, of which the first is its first proposal
  int trials = 0;
  std::map<std::string, std::string> ran;  ///< by kind of product, as choices have it, the algorithm of the last one
};
Cublas& emulated_cublas();

}  // namespace sluice::emulation
