#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace sluice::ladder {

/// One kernel twice: as the op runs it, and naive (naive.h). Each call computes anew; an optimizer's goes one step further.
struct Rung {
  std::string kernel;
  std::function<std::vector<Tensor>()> shipped, naive;
};

struct Size {
  int64_t tokens, width;  ///< of most rungs: rows and their length
  int64_t rows, classes;  ///< of the loss
  int64_t context, heads, head_width;
};
/// Several times a GPU's cache, but for attention, whose naive kernel would take a second.
inline constexpr Size kLarge{131072, 1024, 8192, 50257, 2048, 8, 64};

/// `device` must be a CUDA device; `dtype` is that of activations: bf16, f32 or f64.
std::vector<Rung> rungs(const DevicePtr& device, DType dtype, const Size& size);

/// The most that sums in another order and the roundings of stored numbers explain.
double tolerance_of(DType dtype);

}  // namespace sluice::ladder
