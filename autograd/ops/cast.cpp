#include "autograd/ops/cast.h"

#include "core/ops/copy.h"

namespace sluice {

namespace {

/// Of a parameter not rounded to what it is stored in: see Node::gradient_dtype.
Gradients cast_gradients(const Node& node, const Tensor& dy, Needs) {
  const NodePtr& of = node.inputs[0];
  return {cast(dy, of ? of->gradient_dtype() : node.attribute<DType>())};
}

}  // namespace

Var cast(const Var& x, DType dtype) {
  if (x.value().dtype() == dtype) return x;
  return record("cast", cast(x.value(), dtype), {x}, {}, x.value().dtype(), cast_gradients);
}

}  // namespace sluice
