#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// The axes first..last as one; negative ones count from the end. By default each sample becomes one row.
/// Shape   x [B, ...] -> [B, ...] with fewer axes.
/// Errors  UsageError for first = 0: the batch axis stays as it is.
class Flatten : public Module {
 public:
  explicit Flatten(int first = 1, int last = -1);
  Var forward(const Call& call) const override;

 private:
  int first_, last_;
};

/// Each sample's elements, row-major, in another shape, of which one extent may be -1: what is left.
/// Shape   x [B, ...] -> [B, sample_shape ...].
/// Errors  UsageError for extents below -1 or -1 twice, and for samples whose elements they do not hold.
class Reshape : public Module {
 public:
  explicit Reshape(std::vector<int64_t> sample_shape);
  Var forward(const Call& call) const override;

 private:
  std::vector<int64_t> sample_shape_;
};

}  // namespace sluice::layers
