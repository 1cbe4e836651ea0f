#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// y = x W^T + b.
/// Shape   x [..., in] -> y [..., out]; weight [out, in], bias [out].
/// Starts  weight normal with `standard_deviation` (0 = 1 / sqrt(in)), bias zero.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true, double standard_deviation = 0);
  std::vector<ParameterSpec> parameters() const override;
  /// Errors  UsageError for x of another width, or of integers.
  Var forward(const Call& call) const override;

 protected:
  void check_input(const Var& x) const;

 private:
  int64_t in_, out_;
  bool bias_;
  double standard_deviation_;
};

}  // namespace sluice::layers
