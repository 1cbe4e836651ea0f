#pragma once
// What all attention kernels share: views of heads, the sizes of a call, and which tile of which head a block takes.
#include <cmath>

#include "core/cuda/kernel.h"
#include "core/ops/attention.h"
#include "core/tensor.h"

namespace sluice::kernels {

/// The rows of one head of one sample.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
  __device__ T* operator[](int row) const { return data + row * stride; }
};

/// A tensor [B, T, H, N] whose last stride is 1; without data where it is undefined.
template <class T>
struct Heads {
  explicit Heads(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data<T>();
    sample = x.stride(0), token = x.stride(1), head = x.stride(2);
  }
  /// Every row of every head allows 16-byte accesses; so do undefined tensors.
  bool has_packs() const { return packs_fit<T>(sample, data) && packs_fit<T>(token) && packs_fit<T>(head); }
  __device__ HeadRows<T> rows(int at_sample, int at_head) const { return {data + at_sample * sample + at_head * head, token}; }

  T* data = nullptr;
  int64_t sample = 0, token = 0, head = 0;
};

/// The sizes of one call.
struct AttentionSizes {
  AttentionSizes(const Tensor& q, const Tensor& k, const AttentionMask& mask)
      : samples(static_cast<int>(q.dim(0))),
        queries(static_cast<int>(q.dim(1))),
        keys(static_cast<int>(k.dim(1))),
        width(static_cast<int>(q.dim(3))),
        heads(static_cast<int>(q.dim(2))),
        key_heads(static_cast<int>(k.dim(2))),
        all_queries(queries),
        all_keys(keys),
        causal(mask.causal) {
    if (mask.query_lengths.defined()) query_lengths = mask.query_lengths.data<int32_t>();
    if (mask.key_lengths.defined()) key_lengths = mask.key_lengths.data<int32_t>();
  }
  bool has_lengths() const { return query_lengths || key_lengths; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }

  int samples, queries, keys, width, heads, key_heads;
  int all_queries, all_keys;  ///< with padding, where queries and keys are those of one sample
  bool causal;
  const int32_t *query_lengths = nullptr, *key_lengths = nullptr;
};

/// The same in a kernel: of the call, or after keep_sample of one sample, and which keys a query sees. Without lengths there is no padding
/// to know of, which saves registers.
template <bool kHasLengths>
struct Extent : AttentionSizes {
  explicit Extent(const AttentionSizes& sizes) : AttentionSizes(sizes) {}

  /// Leaves what counts of a sample: no padding, and nothing where no query sees a key. Lengths beyond the tensors count as the nearest
  /// that are not: attention_cuda.cu reports them.
  __device__ void keep_sample(int sample) {
    if constexpr (kHasLengths) {
      if (query_lengths) queries = max(0, min(query_lengths[sample], all_queries));
      if (key_lengths) keys = max(0, min(key_lengths[sample], all_keys));
      if (queries == 0 || keys == 0) queries = keys = 0;
    }
  }
  __device__ int padded_queries() const { return kHasLengths ? all_queries : queries; }
  __device__ int padded_keys() const { return kHasLengths ? all_keys : keys; }
  __device__ int group() const { return heads / key_heads; }
  /// A query sees the keys below this one.
  __device__ int seen(int query) const { return causal ? min(query + 1 + padded_keys() - padded_queries(), keys) : keys; }
  /// The first query that sees a key.
  __device__ int first_seeing(int key) const { return causal ? max(key - (padded_keys() - padded_queries()), 0) : 0; }
  /// The place of a head's first query in [B, H, T].
  __device__ int64_t row_of(int sample, int head) const { return (int64_t{sample} * heads + head) * padded_queries(); }
};

/// Zeros in columns [column, end_column) of the rows [first, end), by all threads of the block.
template <class T>
__device__ void clear_rows(const HeadRows<T>& rows, int first, int end, int column, int end_column) {
  const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x, columns = end_column - column;
  for (int i = thread; i < (end - first) * columns; i += threads) rows[first + i / columns][column + i % columns] = T(0);
}

/// What is padding of a tile's rows [first, first + rows), of which the tensor has padded_rows and the sample kept_rows, becomes zeros.
/// Answers whether all of the tile is.
template <class T>
__device__ bool clear_padding(const Heads<T>& x, int sample, int head, int first, int rows, int kept_rows, int padded_rows, int column,
                              int end_column) {
  if (x.data) clear_rows(x.rows(sample, head), max(first, kept_rows), min(first + rows, padded_rows), column, end_column);
  return first >= kept_rows;
}

constexpr int tiles_of(int rows, int tile) { return (rows + tile - 1) / tile; }

/// Which tile of which head a block takes: tiles of one head run side by side, so that they find its rows in the L2 cache.
struct BlockPlace {
  __device__ BlockPlace(int tiles, int heads)
      : sample(blockIdx.x / (tiles * heads)), head(blockIdx.x / tiles % heads), tile(blockIdx.x % tiles) {}
  int sample, head, tile;
};

}  // namespace sluice::kernels
