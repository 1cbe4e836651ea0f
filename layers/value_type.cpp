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

namespace {

/// What is in bf16 is for training in bf16, whose layers take any.
DType working_dtype_of(const std::vector<ValueType>& inputs) {
  const bool in_bf16 = std::ranges::any_of(inputs, [](const ValueType& x) { return x.dtype == DType::bf16; });
  return in_bf16 ? DType::bf16 : DType::f32;
}

/// How a module is run.
struct Run {
  DType working;
  bool records = false, training = true;
  int64_t samples = 0;
  std::vector<Shape>* losses = nullptr;
};

/// Nothing when the module looks at elements.
std::optional<Var> output_of(const Module& module, const std::vector<ValueType>& inputs, const Run& run) {
  const auto& [working, records, training, samples, losses] = run;
  const auto device = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{});
  Call call;
  for (const auto& [shape, dtype] : inputs) {
    const Tensor x = empty(shape, dtype, device);
    call.inputs.push_back(records && is_floating(dtype) ? Var::input(x) : Var(x));
  }
  for (const auto& spec : module.parameters()) {
    const Tensor weight = empty(spec.shape, working, device);
    call.parameters.push_back(records ? Var::parameter(weight) : Var(weight));
  }
  call.training = training;
  if (!training)
    for (const auto& spec : module.statistics()) {
      const Tensor running = empty({spec.channels}, DType::f32, device);
      call.statistics.push_back({running, running});
    }
  call.random.samples = static_cast<uint32_t>(samples);
  if (records) call.random.step = 1;  // the second: probabilities that grow with training have begun to
  call.shapes_of_losses = losses;
  call.tables = Tables(device, working).of(module);
  try {
    Var y = module.forward(call);
    require_made_here(module, y, *device);
    return y;
  } catch (const NoElements&) {
    return std::nullopt;
  }
}

std::optional<ValueType> type_of_value(const std::optional<Var>& y) {
  return y ? std::optional(ValueType{y->shape(), y->value().dtype()}) : std::nullopt;
}

}  // namespace

std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs) {
  return output_type(module, inputs, working_dtype_of(inputs), true);
}

std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs, DType working, bool training) {
  return type_of_value(output_of(module, inputs, {.working = working, .training = training}));
}

std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs, int64_t samples,
                                     std::vector<Shape>& losses) {
  return type_of_value(output_of(module, inputs, {.working = working_dtype_of(inputs), .samples = samples, .losses = &losses}));
}

std::optional<Var> recorded_output(const Module& module, const std::vector<ValueType>& inputs) {
  return output_of(module, inputs, {.working = working_dtype_of(inputs), .records = true});
}

}  // namespace sluice::layers
