#include "autograd/ops/reshape.h"

#include "core/ops/copy.h"

namespace sluice {

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", x.value().contiguous().reshape(shape), {x}, {}, x.shape(),
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{dy.contiguous().reshape(node.attribute<Shape>())}; });
}

Var transpose(const Var& x, int a, int b) {
  return record("transpose", x.value().transpose(a, b), {x}, {}, std::pair(a, b), [](const Node& node, const Tensor& dy, Needs) {
    const auto& [first, second] = node.attribute<std::pair<int, int>>();
    return Gradients{dy.transpose(first, second)};
  });
}

namespace {

struct SliceAttributes {
  Shape shape;
  int axis;
  int64_t begin, end;
};

}  // namespace

Var slice(const Var& x, int axis, int64_t begin, int64_t end) {
  if (begin == 0 && end == x.dim(axis)) return x;
  return record("slice", x.value().slice(axis, begin, end), {x}, {}, SliceAttributes{x.shape(), axis, begin, end},
                [](const Node& node, const Tensor& dy, Needs) {
                  const auto& at = node.attribute<SliceAttributes>();
                  Tensor dx = zeros(at.shape, dy.dtype(), dy.device_ptr());
                  copy(dy, dx.slice(at.axis, at.begin, at.end));
                  return Gradients{dx};
                });
}

}  // namespace sluice
