#include "core/cuda/tuned.h"

#include "core/cuda/algorithm_cache.h"

namespace sluice {

std::string tuned_algorithms(const GpuDescription& gpu) {
  std::string all;
  for (const char* file : {cublas::kProductsFile, cublas::kCudnnFile})
    if (const auto chosen = cublas::AlgorithmCache(cublas::algorithm_cache_file(file)).digest(cublas::key_of(gpu)); !chosen.empty())
      all += (all.empty() ? "" : " and ") + chosen;
  return all;
}

}  // namespace sluice
