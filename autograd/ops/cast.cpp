#include "autograd/ops/cast.h"

#include "core/ops/copy.h"

namespace sluice {

Var cast(const Var& x, DType dtype) {
  if (x.value().dtype() == dtype) return x;
  // The gradient of a parameter is not rounded to what that is stored in: see Node::gradient_dtype.
  return record("cast", cast(x.value(), dtype), {x}, {}, {},
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{cast(dy, node.inputs[0]->gradient_dtype())}; });
}

}  // namespace sluice
