#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

inline constexpr int kMaxRank = 8;
/// The end of a range that goes to the end of its axis: x.slice(0, 2, kEnd).
inline constexpr int64_t kEnd = INT64_MAX;

[[noreturn]] void refuse_axis(const char* op, int axis, int rank);

/// `axis` in 0..rank-1, after negative ones are counted from the end. Errors  UsageError naming op, axis and rank.
inline int normal_axis(const char* op, int axis, int rank) {
  const int result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank) refuse_axis(op, axis, rank);
  return result;
}

/// The extents of a tensor, outermost first. Rank 0 is a scalar; an extent may be 0.
/// Errors  UsageError for more than kMaxRank extents, a negative extent, or a product that does not fit in 63 bits.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t elements() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= extents_[axis];
    return product;
  }
  /// Extent of an axis; negative axes count from the end.
  int64_t operator[](int axis) const { return extents_[normal_axis("shape", axis, rank_)]; }
  int64_t operator()(int axis) const { return (*this)[axis]; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }

  Shape with(int axis, int64_t extent) const;  ///< one extent replaced
  Shape without(int axis) const;               ///< one axis removed
  Shape appended(int64_t extent) const;        ///< one axis more, innermost
  /// One axis more, which is then `axis` of the result; negative ones count from the result's end.
  Shape inserted(int axis, int64_t extent) const;
  /// Elements before `axis` (the number of rows when axis = -1).
  int64_t elements_before(int axis) const;

  bool operator==(const Shape& other) const;
  std::string text() const;  ///< "[2, 3]"

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Distances between neighbours along each axis, in elements.
using Strides = std::array<int64_t, kMaxRank>;
Strides row_major(const Shape& shape);

/// [begin, end) of an axis, after negative ends are counted from its end and kEnd is put there.
/// Errors  UsageError unless 0 <= begin <= end <= extent then.
std::pair<int64_t, int64_t> normal_range(const char* op, int64_t begin, int64_t end, int64_t extent);

/// `index` in 0..extent-1, after negative ones are counted from the end. Errors  UsageError naming op, index and extent.
int64_t normal_index(const char* op, int64_t index, int64_t extent);

/// A shape seen as [outer, n, inner], where n is the extent of one axis.
struct AxisView {
  AxisView(const Shape& shape, int axis);
  Shape shape() const { return {outer, n, inner}; }
  int64_t outer = 1, n, inner = 1;
};

/// The shape in which the axes first..last are one. Errors  UsageError naming op for axes that are not there or in the wrong order.
Shape flattened(const char* op, const Shape& shape, int first, int last);

/// The common shape of two operands after NumPy's rule (extents equal, or one of them 1 or missing).
/// Errors  UsageError naming op and both shapes.
Shape broadcast_shape(const char* op, const Shape& a, const Shape& b);

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace sluice
