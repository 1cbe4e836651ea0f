#include "autograd/ops/views.h"

#include "autograd/ops/reshape.h"
#include "core/ops/copy.h"
#include "core/ops/reduction.h"

namespace sluice {

namespace {

/// A view with axes of extent 1 more or less: reshaping back never moves elements.
Var record_squeezed(const char* op, const Var& x, Tensor y) {
  return record_moved(op, std::move(y), {x}, x.shape(),
                      [](const Node& node, const Tensor& dy, Needs) { return Gradients{dy.reshape(node.attribute<Shape>())}; });
}

}  // namespace

Var select(const Var& x, int axis, int64_t index) {
  const int64_t at = normal_index("select", index, x.dim(axis));
  return squeeze(slice(x, axis, at, at + 1), axis);
}

Var Var::operator[](int64_t index) const { return select(*this, 0, index); }

Var permute(const Var& x, const std::vector<int>& axes) {
  return record_moved("permute", x.value().permute(axes), {x}, axes, [](const Node& node, const Tensor& dy, Needs) {
    const auto& axes = node.attribute<std::vector<int>>();
    std::vector<int> back(axes.size());
    for (int i = 0; i < dy.rank(); ++i) back[normal_axis("permute", axes[i], dy.rank())] = i;
    return Gradients{dy.permute(back)};
  });
}

Var squeeze(const Var& x, int axis) { return record_squeezed("squeeze", x, x.value().squeeze(axis)); }
Var squeeze(const Var& x) { return record_squeezed("squeeze", x, x.value().squeeze()); }
Var unsqueeze(const Var& x, int axis) { return record_squeezed("unsqueeze", x, x.value().unsqueeze(axis)); }

Var flatten(const Var& x, int first, int last) { return reshape(x, flattened("flatten", x.shape(), first, last)); }

Var expand(const Var& x, const Shape& shape) {
  return record_moved("expand", x.value().expand(shape), {x}, x.shape(), [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{sum_to(cast(dy, node.inputs[0]->gradient_dtype()), node.attribute<Shape>())};
  });
}

}  // namespace sluice
