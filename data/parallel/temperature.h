#pragma once
#include <span>
#include <vector>

namespace sluice::data {

/// Shares of sampling with a temperature T, in proportion to n^(1/T): T = 1 follows the sizes, a large T is the same for all sizes above 0.
/// The shares sum to 1, or are 0 where all sizes are.
/// Errors  UsageError for a temperature below 1 or not finite.
/// Source  Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in the Wild", section 4.2.
std::vector<double> temperature_shares(std::span<const double> sizes, double temperature);

}  // namespace sluice::data
