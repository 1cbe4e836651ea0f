#pragma once
#include "core/tensor.h"

namespace sluice {

/// y[..., c] = 1 where c = index[...], else 0. It has no gradient.
/// Shape   index [...] -> [..., classes], row-major.
/// Dtypes  index i32, i64, u8; y any.
/// Errors  UsageError for an index outside [0, classes), as gather's; for a negative number of classes.
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::f32);

}  // namespace sluice
