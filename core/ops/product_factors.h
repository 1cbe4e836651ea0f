#pragma once
#include "core/host_device.h"

namespace sluice::kernels {

/// The factors of a product, for its gradient: the product of those that are not 0, and the number of those that are.
template <class A>
struct Factors {
  A product = 1;
  int64_t zeros = 0;

  SLUICE_HD void add(A factor) {
    product *= factor == 0 ? A(1) : factor;
    zeros += factor == 0;
  }
  SLUICE_HD void add(const Factors& others) {
    product *= others.product;
    zeros += others.zeros;
  }
  /// The product of all but one of them.
  SLUICE_HD A without(A factor) const {
    if (zeros == 0) return product / factor;
    return zeros == 1 && factor == 0 ? product : A(0);
  }
};

}  // namespace sluice::kernels
