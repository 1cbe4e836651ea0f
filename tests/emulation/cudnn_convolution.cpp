#include "tests/emulation/cudnn_convolution.h"

namespace sluice::emulation {

namespace {

int64_t offset(const CudnnTensor& tensor, int64_t n, int64_t c, int64_t h, int64_t w) {
  return n * tensor.strides[0] + c * tensor.strides[1] + h * tensor.strides[2] + w * tensor.strides[3];
}

/// Calls f(x offset, weight offset, y offset) for every product.
template <class F>
void each_product(const CudnnConvolution& of, const F& f) {
  const auto &x = of.x.extents, &weight = of.weight.extents, &y = of.y.extents;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j)
          for (int64_t r = 0; r < weight[2]; ++r)
            for (int64_t s = 0; s < weight[3]; ++s) {
              const int64_t h = i * of.window.strides[0] - of.window.before[0] + r, w = j * of.window.strides[1] - of.window.before[1] + s;
              if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
              for (int64_t c = 0; c < x[1]; ++c) f(offset(of.x, n, c, h, w), offset(of.weight, o, c, r, s), offset(of.y, n, o, i, j));
            }
}

}  // namespace

bool CudnnConvolution::has_fitting_shapes() const {
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t padded = x.extents[axis + 2] + window.before[axis] + window.behind[axis];
    if (y.extents[axis + 2] != (padded - weight.extents[axis + 2]) / window.strides[axis] + 1) return false;
  }
  return x.extents[0] == y.extents[0] && x.extents[1] == weight.extents[1] && y.extents[1] == weight.extents[0];
}

void CudnnConvolution::run(void* x_data, void* weight_data, void* y_data, double factor) const {
  if (pass == forward) {
    const auto a = numbers(x, x_data), b = numbers(weight, weight_data);
    std::vector<double> sums(y.span());
    each_product(*this, [&](int64_t i, int64_t j, int64_t k) { sums[k] += a[i] * b[j]; });
    store(y, sums, factor, y_data);
  } else if (pass == data) {
    const auto a = numbers(y, y_data), b = numbers(weight, weight_data);
    std::vector<double> sums(x.span());
    each_product(*this, [&](int64_t i, int64_t j, int64_t k) { sums[i] += a[k] * b[j]; });
    store(x, sums, factor, x_data);
  } else {
    const auto a = numbers(y, y_data), b = numbers(x, x_data);
    std::vector<double> sums(weight.span());
    each_product(*this, [&](int64_t i, int64_t j, int64_t k) { sums[j] += a[k] * b[i]; });
    store(weight, sums, factor, weight_data);
  }
}

}  // namespace sluice::emulation
