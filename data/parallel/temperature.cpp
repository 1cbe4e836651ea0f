#include "data/parallel/temperature.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace sluice::data {

std::vector<double> temperature_shares(std::span<const double> sizes, double temperature) {
  require(temperature >= 1 && std::isfinite(temperature), "data: needs a temperature of at least 1, got ", temperature);
  std::vector<double> shares;
  double sum = 0;
  const double largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  for (const double size : sizes) {
    shares.push_back(size > 0 ? std::pow(size / largest, 1 / temperature) : 0);
    sum += shares.back();
  }
  for (double& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}

}  // namespace sluice::data
