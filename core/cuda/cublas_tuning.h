#pragma once
#include <optional>
#include <vector>

#include "core/cuda/cublas_call.h"

namespace sluice::cublas {

/// The fastest of the candidates, timed on the device's stream with the call's own operands; nothing where they could not be tried. Where
/// the product is stored, c holds some of its results afterwards; where it is added to c, c is unchanged.
/// Cost  20 calls a candidate; where the product is added, memory of c's size that the device does not count.
std::optional<cublasLtMatmulAlgo_t> fastest_of(const std::vector<cublasLtMatmulAlgo_t>& candidates, Cuda& cuda, cublasLtHandle_t handle,
                                               const Call& call, Operands on);

}  // namespace sluice::cublas
