#include "autograd/ops/pooling.h"

#include "autograd/ops/reduction.h"
#include "core/ops/adaptive_pooling.h"

namespace sluice {

namespace {

struct PoolAttributes {
  Shape shape;  ///< of x
  Window window;
};

}  // namespace

Var max_pool2d(const Var& x, const Window& window) {
  const auto [y, place] = max_pool2d(x.value(), window, x.node() != nullptr);
  return record("max_pool2d", y, {x}, {place}, PoolAttributes{x.shape(), window}, [](const Node& node, const Tensor& dy, Needs) {
    const auto& [shape, window] = node.attribute<PoolAttributes>();
    return Gradients{max_pool2d_backward(dy, node.saved[0], shape, window, node.take_sum(0))};
  });
}

Var average_pool2d(const Var& x, const Window& window) {
  return record("average_pool2d", average_pool2d(x.value(), window), {x}, {}, PoolAttributes{x.shape(), window},
                [](const Node& node, const Tensor& dy, Needs) {
                  const auto& [shape, window] = node.attribute<PoolAttributes>();
                  return Gradients{average_pool2d_backward(dy, shape, window, node.take_sum(0))};
                });
}

Var adaptive_average_pool2d(const Var& x, int64_t height, int64_t width) {
  return record(
      "adaptive_average_pool2d", adaptive_average_pool2d(x.value(), height, width), {x}, {}, x.shape(),
      [](const Node& node, const Tensor& dy, Needs) { return Gradients{adaptive_average_pool2d_backward(dy, node.attribute<Shape>())}; });
}

Var global_average_pool(const Var& x) {
  require(x.value().rank() == 4, "global_average_pool: needs images [batch, height, width, channels], got ", x.shape());
  return mean(x, {1, 2});
}

}  // namespace sluice
