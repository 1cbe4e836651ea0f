#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/choices.h"
#include "core/cuda/cublas_call.h"

namespace sluice::cublas {

/// An algorithm as choices have it. Nothing for a text that is none.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm);
std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& choice);

/// The library's first proposals for a call, to be timed on the device's stream with the call's own operands; none where they cannot be
/// tried. Where the product is stored, c holds some of its results afterwards; where it is added to c, c is unchanged.
/// Cost  20 calls a candidate; where the product is added, memory of c's size that the device does not count, until the candidates are gone.
std::vector<Candidate> candidates_of(Cuda& cuda, cublasLtHandle_t handle, const Call& call, Operands on, int most);

}  // namespace sluice::cublas
