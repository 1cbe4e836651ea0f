#pragma once
#include <optional>
#include <vector>

#include "tests/emulation/cudnn_tensor.h"

namespace sluice::emulation {

/// One operation of a graph of several.
struct CudnnStep {
  enum Kind { pointwise, product, reduction, reshape } kind;
  cudnnPointwiseMode_t mode{};      ///< of pointwise
  cudnnReduceTensorOp_t reduced{};  ///< of reduction
  cudnnDataType_t precision{};
  std::optional<int64_t> axis;  ///< of CUDNN_POINTWISE_GEN_INDEX
  std::vector<CudnnTensor> operands;
  CudnnTensor result;

  /// Throws std::invalid_argument where types or shapes do not fit. Only what attention is made of is known.
  void check() const;
};

/// A graph of several operations, run one after the other in f64 with every result rounded to its dtype.
struct CudnnComposition {
  std::vector<CudnnStep> steps;

  /// As CudnnStep, and where an operand that lies nowhere is not yet computed or something is computed twice.
  void check() const;
  /// What `run` takes addresses of: each tensor that lies in memory and each scalar, once.
  std::vector<CudnnTensor> outside() const;
  bool is_result(const CudnnTensor& tensor) const;
};

}  // namespace sluice::emulation
