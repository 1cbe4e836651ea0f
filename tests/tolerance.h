#pragma once
#include "core/dtype.h"

namespace sluice::testing {

/// The one table of tolerances: how far elements in a dtype may be from the reference, relative to the largest of them (at least to 1).
struct Tolerance {
  double value;
  double gradient;  ///< f64: of central differences; others: of the gradient in f64
};

inline Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-10, 2e-6};
    case DType::bf16:
      return {4e-2, 4e-2};
    default:
      return {1e-5, 5e-5};
  }
}

}  // namespace sluice::testing
