#include "core/ops/concat.h"

#include <algorithm>

#include "core/operands.h"
#include "core/ops/copy.h"

namespace sluice {

namespace {

void require_parts(const char* op, const std::vector<Tensor>& parts) {
  require(!parts.empty(), op, ": needs at least one part, got none; empty(shape) makes a result without elements");
  for (size_t i = 0; i < parts.size(); ++i)
    require(parts[i].defined(), op, ": needs tensors, got an undefined one as part ", i, "; leave it out, or make it");
}

}  // namespace

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require_parts("concat", parts);
  const Tensor& first = parts[0];
  const int along = normal_axis("concat", axis, first.rank());
  int64_t total = 0;
  for (const Tensor& part : parts) {
    require(part.rank() == first.rank() && part.shape().with(along, first.dim(along)) == first.shape() && part.dtype() == first.dtype(),
            "concat: needs parts that differ in axis ", along, " only, got ", first, " and ", part);
    total += part.dim(along);
  }
  device_of("concat", std::vector<Operand>(parts.begin(), parts.end()));  // copies could move them
  Tensor y = empty(first.shape().with(along, total), first.dtype(), first.device_ptr());
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    copy(part, y.slice(along, begin, begin + part.dim(along)));
    begin += part.dim(along);
  }
  return y;
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  require_parts("stack", parts);
  const int along = normal_axis("stack", axis, parts[0].rank() + 1);
  std::vector<Tensor> slices;
  for (const Tensor& part : parts) {
    require(part.shape() == parts[0].shape(), "stack: needs parts of one shape, got ", parts[0], " and ", part);
    slices.push_back(part.unsqueeze(along));
  }
  return concat(slices, along);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  require(total == x.dim(axis), "split: needs sizes that add up to ", x.dim(axis), ", the extent of axis ", axis, ", got ", total);
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    parts.push_back(x.slice(axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int axis) { return split(x, split_sizes(x.dim(axis), size), axis); }

std::vector<Tensor> chunk(const Tensor& x, int64_t n, int axis) { return split(x, chunk_sizes(x.dim(axis), n), axis); }

std::vector<int64_t> split_sizes(int64_t extent, int64_t size) {
  require(size >= 1, "split: needs ranges of 1 or more, got ", size);
  std::vector<int64_t> sizes(static_cast<size_t>(extent / size), size);
  if (extent % size != 0 || extent == 0) sizes.push_back(extent % size);
  return sizes;
}

std::vector<int64_t> chunk_sizes(int64_t extent, int64_t n) {
  require(n >= 1, "chunk: needs 1 or more ranges, got ", n);
  return split_sizes(extent, std::max<int64_t>(1, extent / n + (extent % n != 0)));
}

}  // namespace sluice
