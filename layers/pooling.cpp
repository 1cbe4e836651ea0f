#include "layers/pooling.h"

#include "autograd/ops/pooling.h"

namespace sluice::layers {

Var MaxPool2d::forward(const Call& call) const { return max_pool2d(call.inputs[0], window_); }

Var AveragePool2d::forward(const Call& call) const { return average_pool2d(call.inputs[0], window_); }

AdaptiveAveragePool2d::AdaptiveAveragePool2d(int64_t height, int64_t width) : height_(height), width_(width) {
  require(height > 0 && width > 0, "AdaptiveAveragePool2d: needs a size of at least 1 x 1, got ", height, " x ", width);
}

Var AdaptiveAveragePool2d::forward(const Call& call) const { return adaptive_average_pool2d(call.inputs[0], height_, width_); }

Var GlobalAveragePool::forward(const Call& call) const { return global_average_pool(call.inputs[0]); }

}  // namespace sluice::layers
