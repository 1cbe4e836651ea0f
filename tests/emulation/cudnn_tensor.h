#pragma once
#include <array>
#include <vector>

#include "cudnn_graph.h"

namespace sluice::emulation {

using CudnnIndices = std::array<int64_t, 4>;

/// As a descriptor states it: four axes, strides in elements.
struct CudnnTensor {
  int64_t uid = 0, alignment = 0;
  cudnnDataType_t dtype{};
  std::vector<int64_t> extents, strides;
  bool is_virtual = false;  ///< lies nowhere: a result of one operation and an operand of others
  bool is_scalar = false;   ///< read on the host when work is enqueued

  bool is_in_memory() const { return !is_virtual && !is_scalar; }
  int64_t elements() const;
  /// From the first to the last of its elements.
  int64_t span() const;
  int64_t offset(const CudnnIndices& at) const;
};

/// All numbers of its span, and those between its elements.
std::vector<double> numbers(const CudnnTensor& tensor, const void* data);
/// Its elements times `factor`, rounded to its dtype; leaves what lies between them.
void store(const CudnnTensor& tensor, const std::vector<double>& values, double factor, void* data);
/// As it reads when it was stored.
double rounded(cudnnDataType_t dtype, double value);

/// Calls f(indices) for all elements of a tensor of those extents, the last axis running fastest.
template <class F>
void each_element(const std::vector<int64_t>& extents, const F& f) {
  CudnnIndices at{};
  for (at[0] = 0; at[0] < extents[0]; ++at[0])
    for (at[1] = 0; at[1] < extents[1]; ++at[1])
      for (at[2] = 0; at[2] < extents[2]; ++at[2])
        for (at[3] = 0; at[3] < extents[3]; ++at[3]) f(at);
}

}  // namespace sluice::emulation
