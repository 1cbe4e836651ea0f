#include "autograd/ops/upsample.h"

namespace sluice {

namespace {

struct UpsampleAttributes {
  Shape shape;  ///< of x
  int64_t factor;
};

}  // namespace

Var upsample2d(const Var& x, int64_t factor, int64_t height, int64_t width) {
  return record("upsample2d", upsample2d(x.value(), factor, height, width), {x}, {}, UpsampleAttributes{x.shape(), factor},
                [](const Node& node, const Tensor& dy, Needs) {
                  const auto& [shape, factor] = node.attribute<UpsampleAttributes>();
                  return Gradients{upsample2d_backward(dy, shape, factor)};
                });
}

}  // namespace sluice
