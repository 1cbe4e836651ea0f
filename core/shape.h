#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace sluice {

inline constexpr int kMaxRank = 8;

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
  /// Elements before `axis` (the number of rows when axis = -1).
  int64_t elements_before(int axis) const;

  bool operator==(const Shape& other) const;
  std::string text() const;  ///< "[2, 3]"

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// The common shape of two operands after NumPy's rule (extents equal, or one of them 1 or missing).
/// Errors  UsageError naming op and both shapes.
Shape broadcast_shape(const char* op, const Shape& a, const Shape& b);

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace sluice
