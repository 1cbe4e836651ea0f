#include "autograd/ops/convolution.h"

namespace sluice {

namespace {

struct Attributes {
  Shape x, weight;
  Window window;
  int64_t groups;
};

/// Deferred: x and dy stay for dW, a third of the layer's work; depthwise ones too, whose dW is a pass over both.
Gradients convolution_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const auto& [x_shape, weight_shape, window, groups] = node.attribute<Attributes>();
  Gradients gradients(2);
  if (needs[0]) gradients[0] = conv2d_input_gradient(dy, weight, x_shape, window, groups);
  if (needs[1]) gradients[1] = conv2d_weight_gradient(dy, x, weight_shape, window, groups);
  return gradients;
}

}  // namespace

Var conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups) {
  return record("conv2d", conv2d(x.value(), weight.value(), window, groups), {x, weight}, {x.value(), weight.value()},
                Attributes{x.shape(), weight.shape(), window, groups}, convolution_gradients, {Needs::of(1), Needs::of(0)});
}

}  // namespace sluice
