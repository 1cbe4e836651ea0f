#include "autograd/ops/dilated_convolution.h"

#include "autograd/ops/convolution.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "core/ops/convolution.h"

namespace sluice {

namespace {

/// One axis of the images: what is added before and after, so that it has whole runs of `dilation` pixels, and what comes of it.
struct DilatedAxis {
  DilatedAxis(int64_t in, int64_t size, int64_t stride, int64_t wide, Padding padding, int64_t pad) : dilation(wide), step(stride) {
    const int64_t extent = dilation * (size - 1) + 1;
    const WindowAxis axis = window_axis(in, extent, stride, padding, pad);
    out = axis.out, before = axis.before;
    const int64_t needed = (out - 1) * stride + extent, padded = std::max(needed, before + in);
    run = (padded + dilation - 1) / dilation;
    after = run * dilation - before - in;
  }
  int64_t end() const { return (out - 1) * step + 1; }

  int64_t dilation, step, out, before, after, run;  ///< run: pixels that one of the smaller images gets
};

}  // namespace

Var dilated_conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups) {
  Window whole = window;  // as images see it, for the checks
  whole.size_h = window.dilation_h * (window.size_h - 1) + 1, whole.size_w = window.dilation_w * (window.size_w - 1) + 1;
  whole.dilation_h = whole.dilation_w = 1;
  const WindowPlan plan = plan_of("conv2d", x.shape(), whole);
  const DilatedAxis h(plan.in_h, window.size_h, window.stride_h, window.dilation_h, window.padding, window.pad_h);
  const DilatedAxis w(plan.in_w, window.size_w, window.stride_w, window.dilation_w, window.padding, window.pad_w);
  const Var padded = pad(x, {{0, 0}, {h.before, h.after}, {w.before, w.after}, {0, 0}});
  const int64_t images = plan.batch, channels = x.dim(3);
  const Var dealt = permute(reshape(padded, {images, h.run, h.dilation, w.run, w.dilation, channels}), {0, 2, 4, 1, 3, 5});
  const Var small = reshape(dealt, {images * h.dilation * w.dilation, h.run, w.run, channels});
  const Var y = conv2d(small, weight, {.size_h = window.size_h, .size_w = window.size_w, .padding = Padding::valid}, groups);
  const int64_t rows = y.dim(1), columns = y.dim(2), outputs = y.dim(3);
  const Var together = permute(reshape(y, {images, h.dilation, w.dilation, rows, columns, outputs}), {0, 3, 1, 4, 2, 5});
  const Var all = reshape(together, {images, rows * h.dilation, columns * w.dilation, outputs});
  return slice(slice(all, 1, 0, h.end(), h.step), 2, 0, w.end(), w.step);
}

}  // namespace sluice
