#include "layers/value_type.h"

#include <algorithm>

#include "core/no_elements.h"
#include "layers/tables.h"

namespace sluice::layers {

ValueType ValueType::of_samples(const Shape& sample_shape, DType dtype, int64_t samples) {
  std::vector<int64_t> extents{samples};
  extents.insert(extents.end(), sample_shape.extents().begin(), sample_shape.extents().end());
  return {Shape(extents), dtype};
}

std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs) {
  const bool in_f32 = std::ranges::all_of(inputs, [](const ValueType& x) { return x.dtype == DType::f32 || !is_floating(x.dtype); });
  return output_type(module, inputs, in_f32 ? DType::f32 : DType::bf16);  // others than f32 are for training in bf16, whose layers take any
}

std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs, DType working) {
  const auto device = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{});
  Call call;
  for (const auto& [shape, dtype] : inputs) call.inputs.emplace_back(empty(shape, dtype, device));
  for (const auto& spec : module.parameters()) call.parameters.emplace_back(empty(spec.shape, working, device));
  call.tables = Tables(device, working).of(module);
  try {
    const Tensor y = module.forward(call).value();
    require(y.defined(), type_of(module), "::forward: needs to return a value, got none");
    return ValueType{y.shape(), y.dtype()};
  } catch (const NoElements&) {
    return std::nullopt;
  }
}

}  // namespace sluice::layers
