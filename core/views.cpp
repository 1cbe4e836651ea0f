// The views of a Tensor: other shapes, strides and offsets over one storage.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "core/tensor.h"

namespace sluice {

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (shape_[axis] != 1 && strides_[axis] != expected) return elements() == 0;
    expected *= shape_[axis];
  }
  return true;
}

namespace {

/// The strides with which `to` has the elements of `from` in their order; nothing when there are none. Old axes that follow one another
/// in memory make a run, and each run must be covered by new axes of its own: NumPy's rule for reshaping without a copy.
std::optional<Strides> reshaped(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result = row_major(to);
  int64_t run = 1, covered = 1, unit = 0;  // elements of the run and of the new axes on it, stride of its innermost element
  int next = to.rank() - 1;
  for (int axis = from.rank() - 1; axis >= 0; --axis) {
    if (run == 1) unit = strides[axis];
    run *= from[axis];
    const bool goes_on = axis > 0 && (from[axis - 1] == 1 || strides[axis - 1] == run * unit);
    if (goes_on) continue;
    for (; next >= 0 && (covered < run || to[next] == 1); --next) {
      result[next] = covered * unit;
      covered *= to[next];
    }
    if (covered != run) return std::nullopt;
    run = covered = 1;
  }
  return result;
}

}  // namespace

bool Tensor::can_reshape(const Shape& shape) const {
  return shape.elements() == elements() && (is_contiguous() || reshaped(shape_, strides_, shape));
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(shape.elements() == elements(), "reshape: needs ", elements(), " elements, got shape ", shape, " for ", *this);
  const auto strides = is_contiguous() ? row_major(shape) : reshaped(shape_, strides_, shape);
  require(strides.has_value(), "reshape: needs elements that need not move, got strides of a view that do not give ", shape,
          "; call contiguous() first");
  Tensor result = *this;
  result.shape_ = shape;
  result.strides_ = *strides;
  return result;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end, int64_t step) const {
  const int a = normal_axis("slice", axis, rank());
  const auto [first, last] = normal_range("slice", begin, end, shape_[a]);
  require(step >= 1, "slice: needs a step of 1 or more, got ", step, "; flip() turns an axis round");
  Tensor result = *this;
  result.offset_ += first * strides_[a];
  result.shape_ = shape_.with(a, first == last ? 0 : (last - first - 1) / step + 1);
  if (result.shape_[a] > 1) result.strides_[a] *= step;
  return result;
}

Tensor Tensor::select(int axis, int64_t index) const {
  const int a = normal_axis("select", axis, rank());
  const int64_t at = normal_index("select", index, shape_[a]);
  return slice(a, at, at + 1).squeeze(a);
}

Tensor Tensor::transpose(int a, int b) const {
  const int i = normal_axis("transpose", a, rank()), j = normal_axis("transpose", b, rank());
  Tensor result = *this;
  result.shape_ = shape_.with(i, shape_[j]).with(j, shape_[i]);
  std::swap(result.strides_[i], result.strides_[j]);
  return result;
}

Tensor Tensor::permute(const std::vector<int>& axes) const {
  require(static_cast<int>(axes.size()) == rank(), "permute: needs each of ", rank(), " axes once, got ", axes.size(), " axes");
  Tensor result = *this;
  std::array<bool, kMaxRank> taken{};
  for (int i = 0; i < rank(); ++i) {
    const int from = normal_axis("permute", axes[i], rank());
    require(!taken[from], "permute: needs each of ", rank(), " axes once, got axis ", from, " twice");
    taken[from] = true;
    result.shape_ = result.shape_.with(i, shape_[from]);
    result.strides_[i] = strides_[from];
  }
  return result;
}

Tensor Tensor::squeeze(int axis) const {
  const int a = normal_axis("squeeze", axis, rank());
  require(shape_[a] == 1, "squeeze: needs an axis of extent 1, got axis ", a, " of ", shape_, "; select() takes one index of an axis");
  Tensor result = *this;
  result.shape_ = shape_.without(a);
  std::copy(strides_.begin() + a + 1, strides_.begin() + rank(), result.strides_.begin() + a);
  return result;
}

Tensor Tensor::squeeze() const {
  Tensor result = *this;
  for (int axis = rank() - 1; axis >= 0; --axis)
    if (shape_[axis] == 1) result = result.squeeze(axis);
  return result;
}

Tensor Tensor::unsqueeze(int axis) const {
  const int a = normal_axis("unsqueeze", axis, rank() + 1);
  Tensor result = *this;
  result.shape_ = shape_.inserted(a, 1);
  std::copy(strides_.begin() + a, strides_.begin() + rank(), result.strides_.begin() + a + 1);
  result.strides_[a] = a < rank() ? shape_[a] * strides_[a] : 1;  // as in a row-major tensor
  return result;
}

Tensor Tensor::flatten(int first, int last) const { return reshape(flattened("flatten", shape_, first, last)); }

Tensor Tensor::expand(const Shape& shape) const {
  require(shape.rank() >= rank() && broadcast_shape("expand", shape_, shape) == shape, "expand: needs a shape that ", shape_,
          " broadcasts to, got ", shape);
  Tensor result = *this;
  result.shape_ = shape;
  const int added = shape.rank() - rank();
  for (int axis = 0; axis < shape.rank(); ++axis)
    result.strides_[axis] = axis < added || shape_[axis - added] != shape[axis] ? 0 : strides_[axis - added];
  return result;
}

bool Tensor::repeats_elements() const {
  if (elements() < 2 || is_contiguous()) return false;
  std::array<std::pair<int64_t, int64_t>, kMaxRank> axes{};  // by axis: distance of neighbours, and steps
  for (int axis = 0; axis < rank(); ++axis) axes[axis] = {std::abs(strides_[axis]), shape_[axis] - 1};
  std::ranges::sort(axes);
  int64_t span = 0;  // of the axes of shorter distances, over which a step has to go
  for (const auto& [distance, steps] : axes) {
    if (steps > 0 && distance <= span) return true;
    span += distance * steps;
  }
  return false;
}

Tensor Tensor::reversed(int axis) const {
  const int a = normal_axis("flip", axis, rank());
  Tensor result = *this;
  if (shape_[a] > 0) result.offset_ += (shape_[a] - 1) * strides_[a];
  result.strides_[a] = -strides_[a];
  return result;
}

}  // namespace sluice
