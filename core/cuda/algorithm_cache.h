#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/cuda/cuda.h"

namespace sluice::cublas {

/// A cublasLtMatmulAlgo_t, which cuBLAS lets programs store for use with the same version of the library.
using AlgorithmWords = std::array<uint64_t, 8>;

/// The algorithms that products run, by a text that says all on which the choice depends. Tuned ones are kept in a file: JSON
///   {"format": 1, "algorithms": {"NVIDIA H200, driver 13000, cuBLAS 130100: bf16 [2048, 768, 768] nt ...": "<128 hexadecimal digits>"}}
/// A missing, damaged or foreign file counts as an empty one, and a file or folder that cannot be written as none: the next program tunes
/// again.
/// Threads  one at a time. Other processes may use the file: it is replaced as a whole.
class AlgorithmCache {
 public:
  /// Reads the file. An empty path: no file.
  explicit AlgorithmCache(std::filesystem::path file);

  std::optional<AlgorithmWords> find(const std::string& key) const;
  /// A hash of all whose key begins so; empty where there is none.
  std::string digest(std::string_view prefix) const;
  /// For the life of this object.
  void remember(const std::string& key, const AlgorithmWords& words) { algorithms_[key] = words; }
  /// In the file too.
  void keep(const std::string& key, const AlgorithmWords& words);

 private:
  std::filesystem::path file_;
  std::map<std::string, AlgorithmWords> algorithms_;
};

inline constexpr const char* kProductsFile = "cublas-algorithms.json";
inline constexpr const char* kCudnnFile = "cudnn-algorithms.json";
/// A file of that name in user_cache_folder(); empty where there is none.
std::filesystem::path algorithm_cache_file(const char* name);
/// What the keys of a kind of GPU begin with: "NVIDIA H200, driver 13000, ".
std::string key_of(const GpuDescription& gpu);

}  // namespace sluice::cublas
