#pragma once
#include "layers/module.h"

namespace sluice::layers {

// Values of several nodes as one. Where inputs have several dtypes, as an input of the graph beside activations in bf16 or a mask of whole
// numbers before them, all are rounded to that of the first floating one. Whole numbers alone need one dtype.

/// The sum of the inputs, from the first on, with NumPy broadcasting.
class Add : public Module {
 public:
  InputCount input_count() const override { return {1, InputCount::kAny}; }
  Var forward(const Call& call) const override;
};

/// The product of the inputs, from the first on, with NumPy broadcasting.
class Multiply : public Module {
 public:
  InputCount input_count() const override { return {1, InputCount::kAny}; }
  Var forward(const Call& call) const override;
};

/// The inputs one after the other along an axis; negative ones count from the end.
/// Shape   x [B, ...], equal but for that axis.
/// Errors  UsageError for axis 0: the batch axis stays as it is.
class Concat : public Module {
 public:
  explicit Concat(int axis = -1);
  InputCount input_count() const override { return {1, InputCount::kAny}; }
  Var forward(const Call& call) const override;

 private:
  int axis_;
};

}  // namespace sluice::layers
