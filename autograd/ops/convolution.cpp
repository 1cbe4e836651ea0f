#include "autograd/ops/convolution.h"

#include <algorithm>

#include "autograd/ops/dilated_convolution.h"
#include "core/ops/convolution.h"

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
  if (needs[1]) gradients[1] = conv2d_weight_gradient(dy, x, weight_shape, window, groups, node.accumulator_of(1));
  return gradients;
}

}  // namespace

Var conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups) {
  const int64_t least = std::min(window.dilation_h, window.dilation_w);
  if (least >= 1 && (window.dilation_h > 1 || window.dilation_w > 1)) return dilated_conv2d(x, weight, window, groups);
  return record("conv2d", conv2d(x.value(), weight.value(), window, groups), {x, weight}, {x.value(), weight.value()},
                Attributes{x.shape(), weight.shape(), window, groups}, convolution_gradients, {Needs::of(1), Needs::of(0)});
}

namespace {

/// Deferred like those of conv2d, of which this is the gradient: dx convolves dy.
Gradients transposed_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const auto& [x_shape, weight_shape, window, groups] = node.attribute<Attributes>();
  Gradients gradients(2);
  if (needs[0]) gradients[0] = conv2d(dy, weight, window, groups);
  if (needs[1]) gradients[1] = conv2d_weight_gradient(x, dy, weight_shape, window, groups, node.accumulator_of(1));
  return gradients;
}

int64_t transposed_extent(int64_t in, int64_t size, int64_t stride, Padding padding, int64_t pad) {
  return padding == Padding::same ? in * stride : (in - 1) * stride + size - 2 * pad;
}

Shape transposed_shape(const Shape& x, const Shape& weight, const Window& window, int64_t groups) {
  require(x.rank() == 4 && weight.rank() == 4 && groups >= 1 && x[3] == weight[0] && x[1] > 0 && x[2] > 0,
          "conv_transpose2d: needs x [batch, height, width, channels] with pixels and weight [channels, ", window.size_h, ", ",
          window.size_w, ", outputs / groups], got ", x, " and ", weight);
  const int64_t height = transposed_extent(x[1], window.size_h, window.stride_h, window.padding, window.pad_h);
  const int64_t width = transposed_extent(x[2], window.size_w, window.stride_w, window.padding, window.pad_w);
  require(height > 0 && width > 0, "conv_transpose2d: needs padding that leaves pixels, got ", height, " x ", width, " of ", x);
  return {x[0], height, width, weight[3] * groups};
}

}  // namespace

Var conv_transpose2d(const Var& x, const Var& weight, const Window& window, int64_t groups) {
  const DType dtype = x.value().dtype();
  require(is_floating(dtype) && weight.value().dtype() == dtype, "conv_transpose2d: needs two operands of one floating dtype, got ",
          x.value(), " and ", weight.value());
  const Shape shape = transposed_shape(x.shape(), weight.shape(), window, groups);
  return record("conv_transpose2d", conv2d_input_gradient(x.value(), weight.value(), shape, window, groups), {x, weight},
                {x.value(), weight.value()}, Attributes{x.shape(), weight.shape(), window, groups}, transposed_gradients,
                {Needs::of(1), Needs::of(0)});
}

}  // namespace sluice
