#include "autograd/ops/cast.h"

#include "core/ops/copy.h"

namespace sluice {

Var cast(const Var& x, DType dtype) {
  if (x.value().dtype() == dtype) return x;
  return record("cast", cast(x.value(), dtype), {x}, {}, x.value().dtype(),
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{cast(dy, node.attribute<DType>())}; });
}

}  // namespace sluice
