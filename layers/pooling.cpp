#include "layers/pooling.h"

#include "autograd/ops/pooling.h"

namespace sluice::layers {

Var MaxPool2d::forward(const Call& call) const { return max_pool2d(call.inputs[0], window_); }

Var AveragePool2d::forward(const Call& call) const { return average_pool2d(call.inputs[0], window_); }

Var GlobalAveragePool::forward(const Call& call) const { return global_average_pool(call.inputs[0]); }

}  // namespace sluice::layers
