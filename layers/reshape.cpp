#include "layers/reshape.h"

#include <algorithm>

#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"

namespace sluice::layers {

Flatten::Flatten(int first, int last) : first_(first), last_(last) {
  require(first != 0, "Flatten: needs axes of the samples, which begin with axis 1, got 0, the batch");
}

Var Flatten::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(normal_axis("Flatten", first_, x.shape().rank()) > 0, "Flatten: needs axes of the samples, got axis ", first_, " of ", x.shape(),
          ", the batch");
  return flatten(x, first_, last_);
}

Reshape::Reshape(std::vector<int64_t> sample_shape) : sample_shape_(std::move(sample_shape)) {
  const bool are_extents = std::ranges::all_of(sample_shape_, [](int64_t extent) { return extent >= -1; });
  require(are_extents && std::ranges::count(sample_shape_, -1) <= 1, "Reshape: needs extents >= 0 and at most one -1, for what is left");
}

Var Reshape::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(x.shape().rank() > 0, "Reshape: needs samples [B, ...], got a number");
  std::vector<int64_t> extents{x.dim(0)};
  std::vector<int64_t> given = sample_shape_;
  std::erase(given, -1);
  const int64_t known = Shape(given).elements();  // refused where there are too many
  const int64_t elements = x.shape().without(0).elements();
  for (const int64_t extent : sample_shape_) extents.push_back(extent >= 0 ? extent : known == 0 ? 0 : elements / known);
  const Shape shape(extents);
  require(shape.without(0).elements() == elements, "Reshape: needs samples of as many elements as the shape has, got ", x.shape(),
          " to become ", shape);
  return reshape(x, shape);
}

}  // namespace sluice::layers
