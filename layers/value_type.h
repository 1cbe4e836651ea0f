#pragma once
#include <optional>
#include <vector>

#include "layers/module.h"

namespace sluice::layers {

/// What is known of a value of a graph before it is computed.
struct ValueType {
  /// As many samples as shapes are checked with: most ways in which a module may divide them come out even.
  static constexpr int64_t kSamples = 24;

  Shape shape;
  DType dtype;

  static ValueType of_samples(const Shape& sample_shape, DType dtype, int64_t samples = kSamples);
};

/// What a module makes of such inputs, found by training it on a device that only counts. Nothing when that cannot be known: the module
/// looks at elements.
/// Errors  what the module finds wrong with its inputs; UsageError when it makes nothing.
std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs);
/// The same of a micro-batch of so many samples, whose random numbers have to be drawn for each; `losses` gets the shapes of what each Loss
/// within sums.
std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs, int64_t samples,
                                     std::vector<Shape>& losses);
/// The same where the parameters have this dtype; where not `training`, what it makes of them in evaluation.
std::optional<ValueType> output_type(const Module& module, const std::vector<ValueType>& inputs, DType working, bool training);
/// The same as a value that has no elements, with the ops that made it, as if parameters and inputs of floats wanted gradients.
std::optional<Var> recorded_output(const Module& module, const std::vector<ValueType>& inputs);

}  // namespace sluice::layers
