#include "autograd/ops/concat.h"

#include "autograd/ops/reshape.h"

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
  return record("concat", std::move(y), parts, {}, ConcatAttributes{std::move(sizes), axis}, [](const Node& node, const Tensor& dy, Needs) {
    const auto& [sizes, axis] = node.attribute<ConcatAttributes>();
    return split(dy, sizes, axis);
  });
}

std::vector<Var> split(const Var& x, const std::vector<int64_t>& sizes, int axis) {
  if (!x.node()) {
    const auto parts = split(x.value(), sizes, axis);
    return {parts.begin(), parts.end()};
  }
  std::vector<Var> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

}  // namespace sluice
