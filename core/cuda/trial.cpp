#include "core/cuda/trial.h"

#include <algorithm>
#include <limits>

#include "core/cuda/try.h"

namespace sluice {

bool is_captured(const Cuda& cuda) {
  cudaStreamCaptureStatus status{};
  CUDA_TRY(cudaStreamIsCapturing(cuda.stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

double trial_seconds(Cuda& cuda, const std::function<bool()>& enqueue) {
  constexpr int kRounds = 4, kCalls = 5;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double best = kNever;
  for (int round = 0; round < kRounds; ++round) {
    const Event begin = cuda.record(true);
    for (int i = 0; i < kCalls; ++i)
      if (!enqueue()) return kNever;
    const Event end = cuda.record(true);
    wait_until(end);
    best = std::min(best, seconds_between(begin, end));
  }
  return best;
}

}  // namespace sluice
