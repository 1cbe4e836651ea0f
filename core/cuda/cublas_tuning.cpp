#include "core/cuda/cublas_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/cuda/try.h"

namespace sluice::cublas {

namespace {

/// Bytes from the first to behind the last element of all matrices c.
int64_t span_of_c(const Product& p) {
  return ((p.batch - 1) * p.c_stride + (p.m - 1) * p.c_ld + p.n) * static_cast<int64_t>(size_of(p.c_dtype));
}

/// Zeros for trials to add to; null where the GPU has no memory left.
class TrialMemory {
 public:
  TrialMemory(Cuda& cuda, int64_t bytes) : cuda_(cuda), memory_(cuda.allocate(bytes)) {
    if (memory_) CUDA_TRY(cudaMemsetAsync(memory_, 0, bytes, cuda.stream()));
  }
  ~TrialMemory() {
    if (memory_) cuda_.release(memory_);
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  Cuda& cuda_;
  void* memory_;
};

/// Time of the best of some rounds of equal calls, the first of which warms up; infinite for an algorithm that fails.
double seconds_of(const cublasLtMatmulAlgo_t& algorithm, Cuda& cuda, cublasLtHandle_t handle, const Call& call, const Operands& on) {
  constexpr int kRounds = 4, kCalls = 5;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double best = kNever;
  for (int round = 0; round < kRounds; ++round) {
    const Moment begin = cuda.record(true);
    for (int i = 0; i < kCalls; ++i)
      if (call.run(cuda, handle, algorithm, on) != CUBLAS_STATUS_SUCCESS) return kNever;
    const Moment end = cuda.record(true);
    wait_until(end);
    best = std::min(best, seconds_between(begin, end));
  }
  return best;
}

}  // namespace

bool tuning() {
  static const bool set = [] {
    const char* value = std::getenv("SLUICE_TUNE");
    return value && *value && std::strcmp(value, "0") != 0;
  }();
  return set;
}

std::optional<cublasLtMatmulAlgo_t> fastest_of(const std::vector<cublasLtMatmulAlgo_t>& candidates, Cuda& cuda, cublasLtHandle_t handle,
                                               const Call& call, Operands on) {
  std::optional<TrialMemory> memory;
  if (call.product().beta != 0) {
    memory.emplace(cuda, span_of_c(call.product()));
    if (!memory->get()) return std::nullopt;
    on.c = memory->get();
  }
  std::vector<double> seconds;
  for (const auto& candidate : candidates) seconds.push_back(seconds_of(candidate, cuda, handle, call, on));
  const auto best = std::min_element(seconds.begin(), seconds.end());
  if (best == seconds.end() || std::isinf(*best)) return std::nullopt;
  return candidates[best - seconds.begin()];
}

}  // namespace sluice::cublas
