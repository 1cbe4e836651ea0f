#include "core/elements.h"

#include <cstring>
#include <limits>

namespace sluice {

Numbers::Numbers(std::initializer_list<Numbers> items) {
  const Shape inner = items.size() == 0 ? Shape() : items.begin()->shape_;
  shape_ = inner.inserted(0, static_cast<int64_t>(items.size()));
  for (const Numbers& item : items) {
    require(item.shape_ == inner, "tensor: needs braces of one shape beside each other, got ", inner, " and ", item.shape_,
            "; fill the shorter one up");
    is_whole_ = is_whole_ && item.is_whole_;
    values_.insert(values_.end(), item.values_.begin(), item.values_.end());
    whole_values_.insert(whole_values_.end(), item.whole_values_.begin(), item.whole_values_.end());
  }
}

namespace {

template <class T>
Tensor of_whole(const std::vector<int64_t>& values, const Shape& shape, const DevicePtr& device) {
  for (const int64_t value : values)
    require(std::in_range<T>(value), "tensor: needs numbers that ", name_of(dtype_of<T>()), " holds, got ", value,
            "; name another dtype, as in tensor({...}, DType::i64)");
  return tensor(std::vector<T>(values.begin(), values.end()), shape, device);
}

}  // namespace

Tensor tensor(const Numbers& numbers, std::optional<DType> dtype, const DevicePtr& device) {
  const DType chosen = dtype.value_or(numbers.is_whole() && !numbers.values().empty() ? DType::i32 : DType::f32);
  if (is_floating(chosen)) return tensor_of(numbers.values(), numbers.shape(), chosen, device);
  require(numbers.is_whole(), "tensor: needs integers for ", name_of(chosen),
          ", got numbers with a point or beyond int64_t; cast() truncates");
  return on_index(chosen, "tensor", [&]<class T>() { return of_whole<T>(numbers.whole_values(), numbers.shape(), device); });
}

Tensor tensor_of_memory(const void* elements, size_t count, const Shape& shape, DType dtype, const DevicePtr& device) {
  require(device != nullptr, "tensor: needs a device, got none; default_device() is the CPU");
  require(static_cast<int64_t>(count) == shape.elements(), "tensor: needs ", shape.elements(), " elements for shape ", shape, ", got ",
          count, "; give them another shape");
  if (device->kind() == DeviceKind::cuda) return tensor_of_memory(elements, count, shape, dtype, default_device()).to(device);
  Tensor result = empty(shape, dtype, device);
  if (count > 0 && device->kind() != DeviceKind::meta) std::memcpy(result.data(), elements, static_cast<size_t>(result.bytes()));
  return result;
}

}  // namespace sluice
