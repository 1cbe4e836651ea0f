#pragma once
#include "core/ops/window.h"
#include "layers/module.h"

namespace sluice::layers {

/// A convolution; without bias, as networks with BatchNorm use it, unless one is wanted.
/// Shape   x [B, H, W, in] -> y [B, OH, OW, out] as the window says; weight [out, KH, KW, in / groups], bias [out]. groups == in == out is
///         depthwise.
/// Starts  weight normal with variance 2 / (KH KW out / groups): He's rule over the outputs, as TensorFlow's variance scaling with FAN_OUT.
///         bias zero.
/// Source  He, Zhang, Ren, Sun 2015, arXiv:1502.01852.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups = 1, bool bias = false);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t in_, out_, groups_;
  bool bias_;
  Window window_;
};

/// A transposed convolution, which makes images larger by its strides; see conv_transpose2d().
/// Shape   x [B, H, W, in] -> y [B, OH, OW, out]; weight [in, KH, KW, out / groups], bias [out].
/// Starts  weight normal with variance 2 / (KH KW in / groups), bias zero.
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t in, int64_t out, const Window& window, int64_t groups = 1, bool bias = false);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t in_, out_, groups_;
  bool bias_;
  Window window_;
};

/// A convolution along a sequence: Conv2d on images of one row.
/// Shape   x [B, T, in] -> y [B, OT, out]; weight [out, 1, size, in / groups], bias [out].
class Conv1d : public Composite {
 public:
  struct Options {
    int64_t in, out, size;
    int64_t stride = 1;
    Padding padding = Padding::same;
    int64_t pad = 0;  ///< tokens on each side, of padding `given`
    int64_t groups = 1;
    bool bias = false;
    int64_t dilation = 1;  ///< how far the tokens that one output reads lie apart
  };
  explicit Conv1d(const Options& options);
  Var forward(const Call& call) const override;

 private:
  int convolution_;
};

/// Halves an image without losing every second pixel: one half of the channels from the pixels at even places, the other from those at odd
/// places (with zeros past the edge), and one BatchNorm over both, with max(y, 0) after it where `relu`.
/// Shape   x [B, H, W, in] -> y [B, ceil(H / 2), ceil(W / 2), out], out even.
/// Source  Zoph, Vasudevan, Shlens, Le 2017, arXiv:1707.07012, appendix.
class FactorizedReduction : public Composite {
 public:
  FactorizedReduction(int64_t in, int64_t out, bool relu = false);
  Var forward(const Call& call) const override;

 private:
  int norm_;
};

}  // namespace sluice::layers
