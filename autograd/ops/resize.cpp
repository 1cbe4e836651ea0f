#include "autograd/ops/resize.h"

namespace sluice {

Var resize2d(const Var& x, int64_t height, int64_t width) {
  return record("resize2d", resize2d(x.value(), height, width), {x}, {}, x.shape(),
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{resize2d_backward(dy, node.attribute<Shape>())}; });
}

}  // namespace sluice
