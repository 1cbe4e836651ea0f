#include "core/ops/spread_pixels.h"

#include "core/dispatch.h"
#include "core/ops/gradient_sum.h"

namespace sluice {

Tensor spread_pixels(const std::vector<Tensor>& pixels, const Shape& shape, int64_t stride_h, int64_t stride_w, const Tensor& sum) {
  const size_t most = std::min(stride_h, stride_w) > 1 ? 2 : 1;
  require(!pixels.empty() && pixels.size() <= most && stride_h >= 1 && stride_w >= 1,
          "spread_pixels: needs one image of pixels, or two and strides of at least 2, got ", pixels.size(), " and strides ", stride_h,
          " and ", stride_w);
  const Tensor& first = pixels.front();
  for (const Tensor& of : pixels)
    require(of.rank() == 4 && shape.rank() == 4 && of.shape() == first.shape() && of.dtype() == first.dtype() && is_floating(of.dtype()) &&
                of.dim(0) == shape[0] && of.dim(3) == shape[3],
            "spread_pixels: needs pixels [batch, rows, columns, channels] of one floating dtype for an image ", shape, ", got ", first,
            " and ", of);
  const Tensor added = row_major_sum("spread_pixels", sum, shape, first.dtype()), dx = empty(shape, first.dtype(), first.device_ptr());
  const SpreadPlan plan{shape[0], shape[1], shape[2], shape[3], first.dim(1), first.dim(2), stride_h, stride_w};
  std::vector<Tensor> from;
  from.reserve(pixels.size());  // operands refer to its tensors
  std::vector<Operand> operands{added};
  Cost cost{0, 0, static_cast<double>(dx.bytes())};
  cost += sum_cost(added);
  for (const Tensor& of : pixels) {
    from.push_back(of.contiguous());
    operands.emplace_back(from.back());
    cost.bytes_read += static_cast<double>(of.bytes());
  }
  run_kernel("spread_pixels", operands, cost, [&](auto& context) { kernels::spread_pixels(context, from, plan, added, dx); });
  return dx;
}

}  // namespace sluice
