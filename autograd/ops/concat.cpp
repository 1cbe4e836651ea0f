#include "autograd/ops/concat.h"

#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"

namespace sluice {

namespace {

struct ConcatAttributes {
  std::vector<int64_t> sizes;
  int axis;
};

}  // namespace

Var concat(const std::vector<Var>& parts, int axis) {
  std::vector<Tensor> tensors;
  for (const Var& part : parts) tensors.push_back(part.value());
  Tensor y = concat(tensors, axis);
  std::vector<int64_t> sizes;
  for (const Var& part : parts) sizes.push_back(part.dim(axis));
  return record_moved("concat", std::move(y), parts, ConcatAttributes{std::move(sizes), axis},
                      [](const Node& node, const Tensor& dy, Needs) {
                        const auto& [sizes, axis] = node.attribute<ConcatAttributes>();
                        return split(dy, sizes, axis);
                      });
}

std::vector<Var> split(const Var& x, const std::vector<int64_t>& sizes, int axis) {
  const auto values = split(x.value(), sizes, axis);  // checks the sizes
  if (!x.node()) return {values.begin(), values.end()};
  std::vector<Var> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

Var stack(const std::vector<Var>& parts, int axis) {
  require(!parts.empty(), "stack: needs at least one part");
  const int along = normal_axis("stack", axis, parts[0].shape().rank() + 1);
  std::vector<Var> slices;
  for (const Var& part : parts) {
    require(part.shape() == parts[0].shape(), "stack: needs parts of one shape, got ", parts[0].value(), " and ", part.value());
    slices.push_back(unsqueeze(part, along));
  }
  return concat(slices, along);
}

std::vector<Var> split(const Var& x, int64_t size, int axis) { return split(x, split_sizes(x.dim(axis), size), axis); }

std::vector<Var> chunk(const Var& x, int64_t n, int axis) { return split(x, chunk_sizes(x.dim(axis), n), axis); }

}  // namespace sluice
