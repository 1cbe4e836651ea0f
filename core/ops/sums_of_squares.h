#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// sums[places[i]] = the sum of squares of all elements of xs[i], for a list of tensors of one device; other elements of `sums` keep their
/// values. On a GPU the whole list takes a few launches.
/// Shape   xs any; sums [N], contiguous; places in [0, N), one a tensor.
/// Dtypes  xs f32, f64, bf16; sums f64, so that norms of many tensors add up exactly enough.
/// Errors  UsageError when one of these does not hold.
/// The order of a sum depends on the tensor's size and the kind of device only: the same bits whatever else is in the list.
void sums_of_squares(const std::vector<Tensor>& xs, const Tensor& sums, const std::vector<int64_t>& places);

/// That of one tensor: shape [], dtype f64.
Tensor sum_of_squares(const Tensor& x);

/// Elements that are summed into one partial sum; of a GPU, by one block of threads.
inline constexpr int64_t squares_chunk(DeviceKind kind) { return kind == DeviceKind::cuda ? 8192 : 32768; }

namespace kernels {
/// xs are contiguous. partial, f64, is scratch: an element for each chunk of each tensor, in their order.
void sums_of_squares(Cpu& cpu, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places);
void sums_of_squares(Cuda& cuda, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places);
}  // namespace kernels

}  // namespace sluice
