#include "core/ops/packs_cuda.cuh"
#include "core/ops/rotary.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

template <class T>
struct Rotary {
  const T* x;
  T* y;
  const compute_t<T>* table;  ///< of every token N/2 sines, then N/2 cosines
  int64_t tokens, heads, half, rotated_heads;
  int direction;
};

/// A thread turns kWidth neighbouring pairs of one head. The table's rows stay in the first-level cache, as all heads of a token use one.
template <int kWidth, class T>
__global__ void rotate(Rotary<T> of, int64_t runs) {
  using C = compute_t<T>;
  const int64_t index = grid_index();
  if (index >= runs) return;
  const int64_t head_runs = of.half / kWidth, row = index / head_runs, i = (index - row * head_runs) * kWidth;
  const int64_t at = row * 2 * of.half + i, token = row / of.heads % of.tokens;
  auto first = load_run<kWidth>(of.x + at), second = load_run<kWidth>(of.x + at + of.half);
  if (row % of.heads < of.rotated_heads) {
    const C* angles = of.table + token * 2 * of.half + i;
    const auto sines = load_run<kWidth>(angles), cosines = load_run<kWidth>(angles + of.half);
    for (int k = 0; k < kWidth; ++k) {
      const C a = first.at[k], b = second.at[k], sine = static_cast<C>(of.direction) * sines.at[k];
      first.at[k] = static_cast<T>(a * cosines.at[k] - b * sine);
      second.at[k] = static_cast<T>(b * cosines.at[k] + a * sine);
    }
  }
  store_run(of.y + at, first);
  store_run(of.y + at + of.half, second);
}

dim3 blocks_for(int64_t threads) { return dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)); }

template <int kWidth, class T>
void rotate_runs(Cuda& cuda, const Rotary<T>& of, int64_t pairs) {
  launch(cuda, "rotary", {blocks_for(pairs / kWidth), kThreads}, rotate<kWidth, T>, of, pairs / kWidth);
}

}  // namespace

void rotary(Cuda& cuda, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int direction) {
  const int64_t tokens = x.dim(1), heads = x.dim(2), half = x.dim(3) / 2, pairs = x.elements() / 2;
  on_float(x.dtype(), "rotary", [&]<class T>() {
    const Rotary<T> of{x.data<T>(), y.data<T>(), table.data<compute_t<T>>(), tokens, heads, half, rotated_heads, direction};
    if (packs_fit<T>(half, of.x, of.y, of.table)) return rotate_runs<Pack<T>::kCount>(cuda, of, pairs);
    rotate_runs<1>(cuda, of, pairs);
  });
}

}  // namespace sluice::kernels
