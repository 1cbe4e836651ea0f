#pragma once
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace sluice::kernels {

/// The factors of a product, for its gradient: the product of those that are not 0, and the numbers of those that are 0, and that are
/// infinite or NaN.
template <class A>
struct Factors {
  A product = 1;
  int64_t zeros = 0, not_finite = 0;

  SLUICE_HD void add(A factor) {
    product *= factor == 0 ? A(1) : factor;
    zeros += factor == 0;
    not_finite += is_not_finite(factor);
  }
  SLUICE_HD void add(const Factors& others) {
    product *= others.product;
    zeros += others.zeros;
    not_finite += others.not_finite;
  }
  /// The product of all but one of them. A 0 among the others makes it 0, or NaN beside one that is not finite.
  SLUICE_HD A without(A factor) const {
    if (zeros == 0) return product / factor;
    if (zeros == 1 && factor == 0) return product;
    return not_finite > is_not_finite(factor) ? static_cast<A>(NAN) : A(0);
  }

 private:
  SLUICE_HD static int64_t is_not_finite(A factor) { return factor - factor != 0; }
};

}  // namespace sluice::kernels
