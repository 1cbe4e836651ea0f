#pragma once
#include <string>

namespace sluice {

struct GpuDescription;

/// Hashes of the algorithms that tuned runs on this machine have chosen for products, convolutions and attention on that kind of GPU; empty
/// where none have. The bits of what such a GPU computes depend on them.
std::string tuned_algorithms(const GpuDescription& gpu);
/// Whether this process times algorithms and chooses: SLUICE_TUNE is set in the environment, and not to 0.
bool wants_trials();

}  // namespace sluice
