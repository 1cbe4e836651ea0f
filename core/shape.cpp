#include "core/shape.h"

#include <algorithm>
#include <ostream>

#include "core/error.h"

namespace sluice {

Shape::Shape(std::initializer_list<int64_t> extents) : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  require(rank_ <= kMaxRank, "shape: needs at most ", kMaxRank, " axes, got ", rank_);
  int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) {
    const int64_t extent = extents[axis];
    require(extent >= 0, "shape: needs extents >= 0, got ", extent, " at axis ", axis);
    require(!__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product),
            "shape: the number of elements does not fit in 63 bits");
    extents_[axis] = extent;
  }
}

Shape Shape::with(int axis, int64_t extent) const {
  std::array<int64_t, kMaxRank> changed = extents_;
  changed[normal_axis("shape", axis, rank_)] = extent;
  return Shape(std::span<const int64_t>(changed).first(rank_));
}

Shape Shape::without(int axis) const {
  const int removed = normal_axis("shape", axis, rank_);
  Shape result = *this;
  std::copy(extents_.begin() + removed + 1, extents_.begin() + rank_, result.extents_.begin() + removed);
  --result.rank_;
  return result;
}

Shape Shape::appended(int64_t extent) const {
  std::array<int64_t, kMaxRank + 1> more{};
  std::ranges::copy(extents(), more.begin());
  more[rank_] = extent;
  return Shape(std::span(more).first(rank_ + 1));
}

Shape Shape::inserted(int axis, int64_t extent) const {
  const int place = normal_axis("shape", axis, rank_ + 1);
  std::vector<int64_t> more(extents().begin(), extents().end());
  more.insert(more.begin() + place, extent);
  return Shape(std::span<const int64_t>(more));
}

int64_t Shape::elements_before(int axis) const {
  const int end = normal_axis("shape", axis, rank_);
  int64_t product = 1;
  for (int i = 0; i < end; ++i) product *= extents_[i];
  return product;
}

bool Shape::operator==(const Shape& other) const { return std::ranges::equal(extents(), other.extents()); }

std::string Shape::text() const {
  std::string out = "[";
  for (int axis = 0; axis < rank_; ++axis) out += (axis ? ", " : "") + std::to_string(extents_[axis]);
  return out + "]";
}

void refuse_axis(const char* op, int axis, int rank) {
  throw UsageError(join(op, ": needs an axis in [", -rank, ", ", rank, "), got ", axis));
}

Strides row_major(const Shape& shape) {
  Strides strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::pair<int64_t, int64_t> normal_range(const char* op, int64_t begin, int64_t end, int64_t extent) {
  const auto normal = [extent](int64_t at) { return at == kEnd ? extent : at < 0 ? at + extent : at; };
  const int64_t first = normal(begin), last = normal(end);
  require(0 <= first && first <= last && last <= extent, op, ": needs 0 <= begin <= end <= ", extent,
          " once negative ends are counted from the end, got [", begin, ", ", end, ")");
  return {first, last};
}

int64_t normal_index(const char* op, int64_t index, int64_t extent) {
  const int64_t result = index < 0 ? index + extent : index;
  require(0 <= result && result < extent, op, ": needs an index in [", -extent, ", ", extent, "), got ", index);
  return result;
}

AxisView::AxisView(const Shape& shape, int axis) : n(shape[axis]) {
  const int of_n = normal_axis("shape", axis, shape.rank());
  for (int i = 0; i < shape.rank(); ++i)
    if (i != of_n) (i < of_n ? outer : inner) *= shape[i];
}

Shape flattened(const char* op, const Shape& shape, int first, int last) {
  const int begin = normal_axis(op, first, shape.rank()), end = normal_axis(op, last, shape.rank());
  require(begin <= end, op, ": needs a first axis that is not behind the last, got ", begin, " and ", end);
  Shape result = shape;
  for (int axis = end; axis > begin; --axis) result = result.with(axis - 1, result[axis - 1] * result[axis]).without(axis);
  return result;
}

Shape broadcast_shape(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, kMaxRank> extents{};
  for (int i = 0; i < rank; ++i) {
    const int64_t left = i < a.rank() ? a[-1 - i] : 1, right = i < b.rank() ? b[-1 - i] : 1;
    require(left == right || left == 1 || right == 1, op, ": needs shapes that broadcast (equal extents or 1, from the last axis), got ", a,
            " and ", b);
    extents[rank - 1 - i] = left == 1 ? right : left;
  }
  return Shape(std::span(extents).first(rank));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.text(); }

}  // namespace sluice
