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

/// The two halves of that, for tensors of which a device has a part: the sums of squares of the chunks of x, which a device of the same kind
/// adds up when it has those of the whole tensor. Every part but the last is whole chunks; then the sum is the same bits as above.
/// Shape   x any; partial [chunks], contiguous.
/// Dtypes  x f32, f64, bf16; partial and sums f64.
/// Errors  UsageError when one of these does not hold.
void squares_of_chunks(const Tensor& x, const Tensor& partial);
/// sums[place] = the sum of all of `partial`.
void sum_of_chunks(const Tensor& partial, const Tensor& sums, int64_t place);

/// Elements that are summed into one partial sum; of a GPU, by one block of threads.
inline constexpr int64_t squares_chunk(DeviceKind kind) { return kind == DeviceKind::cuda ? 8192 : 32768; }
/// How many there are in so many elements.
inline constexpr int64_t squares_chunks(DeviceKind kind, int64_t elements) {
  return (elements + squares_chunk(kind) - 1) / squares_chunk(kind);
}

namespace kernels {
/// xs are contiguous. partial, f64, is scratch: an element for each chunk of each tensor, in their order.
void sums_of_squares(Cpu& cpu, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places);
void sums_of_squares(Cuda& cuda, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places);
void squares_of_chunks(Cpu& cpu, const Tensor& x, const Tensor& partial);
void squares_of_chunks(Cuda& cuda, const Tensor& x, const Tensor& partial);
void sum_of_chunks(Cpu& cpu, const Tensor& partial, const Tensor& sums, int64_t place);
void sum_of_chunks(Cuda& cuda, const Tensor& partial, const Tensor& sums, int64_t place);
}  // namespace kernels

}  // namespace sluice
