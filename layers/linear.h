#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// y = x W^T + b.
/// Inputs  {x} or, of one made by with_lengths(), also {x, lengths}: tokens from a sample's length on are padding, which is not worked on
///         where that saves time. What y holds there depends on the device, so nothing may depend on it, as attention with lengths and
///         losses that leave padding out do not. Generation reads no lengths.
/// Shape   x [..., in] -> y [..., out]; weight [out, in], bias [out]. With lengths i32 [B] x is [B, T, in].
/// Starts  weight normal with `standard_deviation` (0 = 1 / sqrt(in)), bias zero.
class Linear : public Module {
 public:
  /// Errors  UsageError unless the widths are > 0 and the deviation is >= 0.
  Linear(int64_t in, int64_t out, bool bias = true, double standard_deviation = 0);
  /// The same layer, which may be given lengths.
  Linear with_lengths() const;
  InputCount input_count() const override { return {1, takes_lengths_ ? 2 : 1}; }
  std::vector<ParameterSpec> parameters() const override;
  /// Errors  UsageError for x of another width, or of integers, and for lengths that are none.
  Var forward(const Call& call) const override;

 protected:
  void check_input(const Var& x) const;
  /// Those that the call gives, where the product gains by them; else undefined.
  Tensor lengths_of(const Call& call) const;
  bool takes_lengths_ = false;

 private:
  int64_t in_, out_;
  bool bias_;
  double standard_deviation_;
};

}  // namespace sluice::layers
