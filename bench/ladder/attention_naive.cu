#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"

namespace sluice::ladder {

namespace {

constexpr int kWidest = 128;

/// A thread a query, with its output in local memory: every key and value comes from the caches once for each query.
/// Online softmax: Milakov & Gimelshein 2018, arXiv:1805.02867.
template <class T, class C>
__global__ void attend(const T* q, const T* k, const T* v, T* y, int64_t rows, int64_t tokens, int64_t heads, int width, C scale) {
  const int64_t row = kernels::grid_index();  // (sample, token, head)
  if (row >= rows) return;
  const int64_t token = row / heads % tokens, sample = row / heads / tokens, stride = heads * width;
  const int64_t first_key = (sample * tokens * heads + row % heads) * width;
  C sums[kWidest], maximum = -static_cast<C>(INFINITY), total = 0;
  for (int i = 0; i < width; ++i) sums[i] = 0;
  for (int64_t key = 0; key <= token; ++key) {
    C score = 0;
    for (int i = 0; i < width; ++i) score += static_cast<C>(q[row * width + i]) * static_cast<C>(k[first_key + key * stride + i]);
    const C larger = kernels::larger(maximum, score * scale);
    const C kept = ::exp(maximum - larger), weight = ::exp(score * scale - larger);
    for (int i = 0; i < width; ++i) sums[i] = sums[i] * kept + weight * static_cast<C>(v[first_key + key * stride + i]);
    total = total * kept + weight;
    maximum = larger;
  }
  for (int i = 0; i < width; ++i) y[row * width + i] = static_cast<T>(sums[i] / total);
}

}  // namespace

void causal_attention(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y) {
  const int64_t tokens = q.dim(1), heads = q.dim(2), width = q.dim(3), rows = q.elements() / width;
  require<UsageError>(q.shape() == k.shape() && width <= kWidest, "naive attention: needs q and k alike with a width of at most ", kWidest,
                      ", got ", q.shape(), " and ", k.shape());
  on_float(q.dtype(), "causal_attention", [&]<class T>() {
    launch(cuda, "naive attention", thread_each(rows), attend<T, compute_t<T>>, q.data<T>(), k.data<T>(), v.data<T>(), y.data<T>(), rows,
           tokens, heads, static_cast<int>(width), 1 / std::sqrt(static_cast<double>(width)));
  });
}

}  // namespace sluice::ladder
