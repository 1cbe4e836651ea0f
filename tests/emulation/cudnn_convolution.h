#pragma once
#include <vector>

#include "tests/emulation/cudnn_tensor.h"

namespace sluice::emulation {

struct CudnnWindow {
  std::vector<int64_t> strides, before, behind;  ///< h, w
};

struct CudnnConvolution {
  enum Pass { forward, data, filter } pass;
  CudnnTensor x, weight, y;
  CudnnWindow window;

  const CudnnTensor& result() const { return pass == forward ? y : pass == data ? x : weight; }
  /// By the library's rule for the extent of y.
  bool has_fitting_shapes() const;
  /// Plain loops with sums in f64; the result is multiplied by `factor`.
  void run(void* x_data, void* weight_data, void* y_data, double factor) const;
};

}  // namespace sluice::emulation
