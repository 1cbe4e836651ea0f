#pragma once
// Kernels over many arrays in few launches: a list of them is an argument of the kernel, and each has blocks of threads of its own.
#include <algorithm>
#include <vector>

#include "core/cuda/launch.h"

namespace sluice::kernels {

/// Bytes of arguments that every GPU takes of a launch.
constexpr size_t kArgumentBytes = 4096;

/// As many arrays as fit a launch. Entry says what a kernel needs of one: among others `count`, its elements, of which a block takes
/// `chunk`, and `first_block`, which is set here.
template <class Entry, int kMost>
struct ArrayList {
  int count = 0;
  unsigned blocks = 0;
  Entry at[kMost];

  void add(const Entry& entry, int64_t chunk) {
    at[count] = entry;
    at[count++].first_block = blocks;
    blocks += static_cast<unsigned>((entry.count + chunk - 1) / chunk);
  }
  /// The array of the calling block: the last one that begins at or before it, so never one without blocks.
  __device__ const Entry& of_block() const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (at[middle].first_block <= blockIdx.x ? low : high) = middle;
    }
    return at[low];
  }
};

/// Calls f(list) for the entries in their order, as many a list as it holds.
template <int kMost, class Entry, class F>
void in_lists(const std::vector<Entry>& entries, int64_t chunk, const F& f) {
  for (size_t begin = 0; begin < entries.size(); begin += kMost) {
    ArrayList<Entry, kMost> list;
    for (size_t i = begin; i < std::min(entries.size(), begin + kMost); ++i) list.add(entries[i], chunk);
    f(list);
  }
}

}  // namespace sluice::kernels
