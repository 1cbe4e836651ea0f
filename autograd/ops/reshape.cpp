#include "autograd/ops/reshape.h"

#include <tuple>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace sluice {

Var reshape(const Var& x, const Shape& shape) {
  return record_moved("reshape", x.value().contiguous().reshape(shape), {x}, x.shape(), [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{dy.contiguous().reshape(node.attribute<Shape>())};
  });
}

Var transpose(const Var& x, int a, int b) {
  return record_moved("transpose", x.value().transpose(a, b), {x}, std::pair(a, b), [](const Node& node, const Tensor& dy, Needs) {
    const auto& [first, second] = node.attribute<std::pair<int, int>>();
    return Gradients{dy.transpose(first, second)};
  });
}

namespace {

struct SliceAttributes {
  Shape shape;
  int axis;
  int64_t begin, end, step;
  auto fields() const { return std::tie(axis, begin, end, step); }
  Tensor of(const Tensor& x) const { return x.slice(axis, begin, end, step); }
};

/// The sum of the gradients of x to add a slice's part to, in memory that nothing else refers to: so each slice of a tensor costs its own
/// bytes, not the tensor's. Not the sum that a leaf of one use begins with (Backward::begin_sum): what a slice leaves out would have to get
/// a zero added there, which turns -0 into 0.
Tensor sum_to_slice(const Node& node) {
  if (node.inputs[0]->uses < 2) return {};
  Tensor sum = node.take_sum(0);
  return !sum.defined() || sum.is_exclusive() ? sum : sum.clone();
}

}  // namespace

Var slice(const Var& x, int axis, int64_t begin, int64_t end, int64_t step) {
  std::tie(begin, end) = normal_range("slice", begin, end, x.dim(axis));
  if (begin == 0 && end == x.dim(axis) && step == 1) return x;
  const SliceAttributes slice{x.shape(), axis, begin, end, step};
  return record_moved("slice", slice.of(x.value()), {x}, slice, [](const Node& node, const Tensor& dy, Needs) {
    const auto& at = node.attribute<SliceAttributes>();
    const Tensor sum = sum_to_slice(node);
    if (sum.defined()) {
      const Tensor range = at.of(sum);
      copy(add(range, cast(dy, range.dtype())), range);
      return Gradients{sum};
    }
    Tensor dx = zeros(at.shape, dy.dtype(), dy.device_ptr());
    copy(dy, at.of(dx));
    return Gradients{dx};
  });
}

}  // namespace sluice
