#include "core/ops/concat.h"

#include "core/operands.h"
#include "core/ops/copy.h"

namespace sluice {

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require(!parts.empty(), "concat: needs at least one part");
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

}  // namespace sluice
