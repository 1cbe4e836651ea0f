#include "autograd/ops/softmax.h"

#include "core/ops/softmax.h"

namespace sluice {

Var softmax(const Var& x) {
  Tensor y = softmax(x.value());
  return record("softmax", y, {x}, {y}, {},
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{softmax_backward(node.saved[0], dy)}; });
}

Var log_softmax(const Var& x) {
  Tensor y = log_softmax(x.value());
  return record("log_softmax", y, {x}, {y}, {},
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{log_softmax_backward(node.saved[0], dy)}; });
}

}  // namespace sluice
