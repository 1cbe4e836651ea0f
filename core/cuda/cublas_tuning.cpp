#include "core/cuda/cublas_tuning.h"

#include <algorithm>
#include <cmath>

#include "core/cuda/trial.h"
#include "core/cuda/try.h"

namespace sluice::cublas {

namespace {

/// Bytes from the first to behind the last element of all matrices c.
int64_t span_of_c(const Product& p) {
  return ((p.batch - 1) * p.c_stride + (p.m - 1) * p.c_ld + p.n) * static_cast<int64_t>(size_of(p.c_dtype));
}

}  // namespace

std::optional<cublasLtMatmulAlgo_t> fastest_of(const std::vector<cublasLtMatmulAlgo_t>& candidates, Cuda& cuda, cublasLtHandle_t handle,
                                               const Call& call, Operands on) {
  std::optional<TrialMemory> memory;
  if (call.product().beta != 0) {
    memory.emplace(cuda, span_of_c(call.product()));
    if (!memory->get()) return std::nullopt;
    CUDA_TRY(cudaMemsetAsync(memory->get(), 0, span_of_c(call.product()), cuda.stream()));
    on.c = memory->get();
  }
  std::vector<double> seconds;
  for (const auto& candidate : candidates)
    seconds.push_back(trial_seconds(cuda, [&] { return call.run(cuda, handle, candidate, on) == CUBLAS_STATUS_SUCCESS; }));
  const auto best = std::min_element(seconds.begin(), seconds.end());
  if (best == seconds.end() || std::isinf(*best)) return std::nullopt;
  return candidates[best - seconds.begin()];
}

}  // namespace sluice::cublas
