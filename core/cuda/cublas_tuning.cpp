#include "core/cuda/cublas_tuning.h"

#include <cstring>
#include <memory>

#include "core/cuda/algorithm_words.h"
#include "core/cuda/trial.h"
#include "core/cuda/try.h"

namespace sluice::cublas {

namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmWords));

/// Bytes from the first to behind the last element of all matrices c.
int64_t span_of_c(const Product& p) {
  return ((p.batch - 1) * p.c_stride + (p.m - 1) * p.c_ld + p.n) * static_cast<int64_t>(size_of(p.c_dtype));
}

}  // namespace

std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  AlgorithmWords words;
  std::memcpy(&words, &algorithm, sizeof words);
  return text_of(words);
}

std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& choice) {
  const auto words = words_of(choice);
  if (!words) return std::nullopt;
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, &*words, sizeof algorithm);
  return algorithm;
}

std::vector<Candidate> candidates_of(Cuda& cuda, cublasLtHandle_t handle, const Call& call, Operands on, int most) {
  std::shared_ptr<const TrialMemory> memory;
  if (call.product().beta != 0) {
    memory = std::make_shared<TrialMemory>(cuda, span_of_c(call.product()));
    if (!memory->get()) return {};
    CUDA_TRY(cudaMemsetAsync(memory->get(), 0, span_of_c(call.product()), cuda.stream()));
    on.c = memory->get();
  }
  std::vector<Candidate> all;
  for (const auto& algorithm : call.candidates(handle, most))
    all.push_back({text_of(algorithm), [&cuda, &call, handle, algorithm, on, memory] {
                     return trial_seconds(cuda, [&] { return call.run(cuda, handle, algorithm, on) == CUBLAS_STATUS_SUCCESS; });
                   }});
  return all;
}

}  // namespace sluice::cublas
