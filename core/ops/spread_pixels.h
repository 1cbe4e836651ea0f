#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// An image of pixels that lie a stride apart, with zeros between them; a second image's begin one row and one column later:
/// dx[b, k + i stride_h, k + j stride_w] = pixels[k][b, i, j]. Those past the edge are left out. It is the gradient of what reads every
/// stride-th pixel.
/// Shape   one or two pixels [B, h, w, C], alike; dx `shape`: [B, H, W, C].
/// Dtypes  f32, f64, bf16; all alike.
/// Errors  UsageError naming the shapes; two where a stride is 1; a sum unlike dx.
/// Cost    one pass: dx written, the pixels and the sum read once.
/// Sum     see gradient_sum.h; undefined where there is none.
Tensor spread_pixels(const std::vector<Tensor>& pixels, const Shape& shape, int64_t stride_h, int64_t stride_w, const Tensor& sum = {});

/// Of dx, and of the pixels.
struct SpreadPlan {
  int64_t batch, height, width, channels;
  int64_t rows, columns;  ///< of pixels
  int64_t stride_h, stride_w;
};

namespace kernels {
/// All row-major; sum may be undefined.
void spread_pixels(Cpu& cpu, const std::vector<Tensor>& pixels, const SpreadPlan& plan, const Tensor& sum, const Tensor& dx);
void spread_pixels(Cuda& cuda, const std::vector<Tensor>& pixels, const SpreadPlan& plan, const Tensor& sum, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
