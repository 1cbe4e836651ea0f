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
  Shape result = *this;
  result.extents_[normal_axis("shape", axis, rank_)] = extent;
  return result;
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
