#pragma once
#include "core/ops/window.h"
#include "layers/module.h"

namespace sluice::layers {

/// The largest element under each place of a window; see core/ops/pooling.h.
/// Shape   x [B, H, W, C] -> [B, OH, OW, C].
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(const Window& window) : window_(window) {}
  Var forward(const Call& call) const override;

 private:
  Window window_;
};

/// The average under each place of a window; padding does not count.
/// Shape   x [B, H, W, C] -> [B, OH, OW, C].
class AveragePool2d : public Module {
 public:
  explicit AveragePool2d(const Window& window) : window_(window) {}
  Var forward(const Call& call) const override;

 private:
  Window window_;
};

/// height x width averages of images of any size; see core/ops/adaptive_pooling.h.
/// Shape   x [B, H, W, C] -> [B, height, width, C].
/// Errors  UsageError for sizes below 1.
class AdaptiveAveragePool2d : public Module {
 public:
  AdaptiveAveragePool2d(int64_t height, int64_t width);
  Var forward(const Call& call) const override;

 private:
  int64_t height_, width_;
};

/// The average over all pixels.
/// Shape   x [B, H, W, C] -> [B, C].
class GlobalAveragePool : public Module {
 public:
  Var forward(const Call& call) const override;
};

}  // namespace sluice::layers
