#pragma once
#include <compare>
#include <cstdint>
#include <optional>

#include "core/dtype.h"

namespace sluice::onednn {

enum class ConvolutionPass { forward, input_gradient, weight_gradient };

/// A convolution of images [N, H, W, C] with weights [O, size_h, size_w, C], or one of its gradients; all row-major.
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType dtype = DType::f32;
  int64_t images = 0, in_h = 0, in_w = 0, channels = 0;
  int64_t out_h = 0, out_w = 0, outputs = 0;
  int64_t size_h = 0, size_w = 0, stride_h = 0, stride_w = 0, before_h = 0, before_w = 0;

  auto operator<=>(const Convolution&) const = default;
};

/// Bytes of scratch that `convolve` needs; nothing when this build or this CPU has no fast kernel (f32, and bf16 with f32 sums) that
/// writes all of the result.
std::optional<int64_t> scratch_bytes(const Convolution& convolution);

/// Runs a convolution for which `scratch_bytes` gave a size, on the calling thread alone.
/// forward: result y from x and weights; input_gradient: dx from dy and weights; weight_gradient: dweights, in f32, from dy and x.
/// Threads  any; compiled convolutions are kept per thread.
void convolve(const Convolution& convolution, const void* first, const void* second, void* result, void* scratch);

}  // namespace sluice::onednn
