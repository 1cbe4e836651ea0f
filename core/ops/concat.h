#pragma once
#include <initializer_list>
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The parts one after the other along an axis.
/// Shape   parts equal but for that axis -> their extents summed there; row-major.
/// Dtypes  all; the parts share one.
/// Errors  UsageError for no parts, or parts of different shape, dtype or device.
Tensor concat(const std::vector<Tensor>& parts, int axis);
/// Of a list in braces it is clear by these which ones are meant, those of Tensors or of Vars.
inline Tensor concat(std::initializer_list<Tensor> parts, int axis) { return concat(std::vector<Tensor>(parts), axis); }

/// The parts side by side along a new axis, which is then `axis` of the result.
/// Shape   parts all equal -> one axis more, as long as there are parts; row-major.
/// Dtypes, Errors  those of concat.
Tensor stack(const std::vector<Tensor>& parts, int axis);
inline Tensor stack(std::initializer_list<Tensor> parts, int axis) { return stack(std::vector<Tensor>(parts), axis); }

/// Views of consecutive ranges of an axis, of the given sizes.
/// Errors  UsageError unless the sizes add up to the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis);
/// The same with ranges of `size`; the last one is as long as what is left.
std::vector<Tensor> split(const Tensor& x, int64_t size, int axis);
/// The same with at most n ranges of equal size, but for the last.
std::vector<Tensor> chunk(const Tensor& x, int64_t n, int axis);

/// The sizes of these ranges, of an axis of `extent`: one of 0 where there is nothing to cut.
/// Errors  UsageError for a size or n below 1.
std::vector<int64_t> split_sizes(int64_t extent, int64_t size);
std::vector<int64_t> chunk_sizes(int64_t extent, int64_t n);

}  // namespace sluice
