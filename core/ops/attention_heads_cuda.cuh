#pragma once
// What all attention kernels share: views of heads, the sizes of a call, and which tile of which head a block takes.
#include <cmath>

#include "core/cuda/kernel.h"
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

/// The sizes of one call, and which keys a query sees.
struct Extent {
  Extent(const Tensor& q, const Tensor& k, bool is_causal)
      : samples(static_cast<int>(q.dim(0))),
        queries(static_cast<int>(q.dim(1))),
        keys(static_cast<int>(k.dim(1))),
        width(static_cast<int>(q.dim(3))),
        heads(static_cast<int>(q.dim(2))),
        key_heads(static_cast<int>(k.dim(2))),
        causal(is_causal) {}
  int samples, queries, keys, width, heads, key_heads;
  bool causal;

  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  __device__ int group() const { return heads / key_heads; }
  /// A query sees the keys below this one.
  __device__ int seen(int query) const { return causal ? min(query + 1 + keys - queries, keys) : keys; }
  /// The first query that sees a key.
  __device__ int first_seeing(int key) const { return causal ? max(key - (keys - queries), 0) : 0; }
  /// The place of a head's first query in [B, H, T].
  __device__ int64_t row_of(int sample, int head) const { return (int64_t{sample} * heads + head) * queries; }
};

constexpr int tiles_of(int rows, int tile) { return (rows + tile - 1) / tile; }

/// Which tile of which head a block takes: tiles of one head run side by side, so that they find its rows in the L2 cache.
struct BlockPlace {
  __device__ BlockPlace(int tiles, int heads)
      : sample(blockIdx.x / (tiles * heads)), head(blockIdx.x / tiles % heads), tile(blockIdx.x % tiles) {}
  int sample, head, tile;
};

}  // namespace sluice::kernels
