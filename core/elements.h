#pragma once
#include <concepts>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The types of elements that a tensor can have.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, bfloat16> || std::same_as<T, double> || std::same_as<T, int32_t> ||
    std::same_as<T, int64_t> || std::same_as<T, uint8_t>;

/// The type of what lies in a std::vector, std::array, std::span or C array.
template <class R>
using element_t = std::remove_cvref_t<decltype(*std::data(std::declval<const R&>()))>;

/// Something with elements one after the other: a std::vector, std::array, std::span or C array of them.
template <class R>
concept ElementRange = requires(const R& range) {
  std::size(range);
  requires Element<element_t<R>>;
};

/// Numbers in braces, nested as the axes are: {{1, 2}, {3, 4}}; or one number.
class Numbers {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Numbers(T number)  // NOLINT: a number in braces reads as itself
      : is_whole_(std::is_integral_v<T> && (static_cast<int64_t>(number) > 0) == (number > 0)),  // an int64_t holds it
        values_{static_cast<double>(number)},
        whole_values_{is_whole_ ? static_cast<int64_t>(number) : 0} {}
  /// Errors  UsageError when the items have different shapes.
  Numbers(std::initializer_list<Numbers> items);

  const Shape& shape() const { return shape_; }
  bool is_whole() const { return is_whole_; }
  const std::vector<double>& values() const { return values_; }
  const std::vector<int64_t>& whole_values() const { return whole_values_; }

 private:
  Shape shape_;
  bool is_whole_ = true;  ///< all of them have integer types and are numbers of int64_t
  std::vector<double> values_;
  std::vector<int64_t> whole_values_;  ///< where is_whole_: those above 2^53, too
};

/// A tensor of the numbers as they are written: tensor({{1, 2}, {3, 4}}) has shape [2, 2], tensor(0.5) is a scalar.
/// Dtypes  i32 for integers and f32 where one number has a point, unless `dtype` says otherwise.
/// Errors  UsageError for braces of different lengths, and for numbers that the integer dtype does not hold.
Tensor tensor(const Numbers& numbers, std::optional<DType> dtype = {}, const DevicePtr& device = default_device());

/// A tensor of `count` elements of a dtype, copied from memory of the host: what the next two do for a type.
Tensor tensor_of_memory(const void* elements, size_t count, const Shape& shape, DType dtype, const DevicePtr& device);

/// A tensor of elements that are in memory already, bit for bit; Tensor::to_vector<T>() is the way back. The elements are copied, in
/// row-major order. `tensor_of` converts doubles to a dtype instead.
/// Shape   the elements' number is that of the shape; without one, one axis.
/// Dtypes  that of the elements' type: std::vector<double> gives f64.
/// Errors  UsageError when there are more or fewer elements than in the shape.
template <ElementRange R>
Tensor tensor(const R& elements, const Shape& shape, const DevicePtr& device = default_device()) {
  return tensor_of_memory(std::data(elements), std::size(elements), shape, dtype_of<element_t<R>>(), device);
}
template <ElementRange R>
Tensor tensor(const R& elements) {
  return tensor(elements, Shape{static_cast<int64_t>(std::size(elements))});
}
/// Not from braces, which are a shape.
template <ElementRange R, std::same_as<DevicePtr> D>
Tensor tensor(const R& elements, const D& device) {
  return tensor(elements, Shape{static_cast<int64_t>(std::size(elements))}, device);
}

}  // namespace sluice
