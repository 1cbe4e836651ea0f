#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cuda/cuda.h"
#include "core/dtype.h"

namespace sluice::cudnn {

/// A tensor that an op writes, on the device. The last stride is 1.
struct Result {
  void* data;
  std::array<int64_t, 4> extents, strides;  ///< in elements
  DType dtype;
  double tolerance;  ///< of differences, relative to the largest element

  /// Fills it with NaN, so that elements that stay unwritten show; nothing between its rows.
  void poison(Cuda& cuda) const;
};

/// What Sluice's own kernels computed, kept on the host to judge others by.
class Agreement {
 public:
  Agreement(Cuda& cuda, const Result& result);

  /// Numbers by which nothing can be judged: none but zeros, or some that are not finite.
  bool is_void() const { return !(largest_ > 0); }
  /// Empty where all elements that the result's memory holds now agree; else what deviates how far.
  std::string deviation(Cuda& cuda) const;

 private:
  std::vector<double> numbers(Cuda& cuda) const;

  Result result_;
  double largest_ = 0;
  std::vector<double> expected_;
};

}  // namespace sluice::cudnn
