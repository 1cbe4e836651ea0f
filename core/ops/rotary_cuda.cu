#include "core/ops/packs_cuda.cuh"
#include "core/ops/rotary.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// Of every token N/2 cosines, then N/2 sines.
template <class C>
__global__ void fill_table(C* table, int64_t tokens, int64_t half, int64_t first_position, double base, int direction) {
  const int64_t token = grid_index() / half, i = grid_index() - token * half;
  if (token >= tokens) return;
  const double angle = static_cast<double>(first_position + token) * ::pow(base, -static_cast<double>(i) / static_cast<double>(half));
  table[token * 2 * half + i] = static_cast<C>(::cos(angle));
  table[token * 2 * half + half + i] = static_cast<C>(direction * ::sin(angle));
}

template <class T>
struct Rotary {
  const T* x;
  T* y;
  const compute_t<T>* table;
  int64_t tokens, heads, half, rotated_heads;
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
    const auto cosines = load_run<kWidth>(angles), sines = load_run<kWidth>(angles + of.half);
    for (int k = 0; k < kWidth; ++k) {
      const C a = first.at[k], b = second.at[k];
      first.at[k] = static_cast<T>(a * cosines.at[k] - b * sines.at[k]);
      second.at[k] = static_cast<T>(b * cosines.at[k] + a * sines.at[k]);
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

void rotary(Cuda& cuda, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int64_t first_position, double base,
            int direction) {
  const int64_t tokens = x.dim(1), heads = x.dim(2), half = x.dim(3) / 2, pairs = x.elements() / 2;
  on_float(x.dtype(), "rotary", [&]<class T>() {
    auto* angles = table.data<compute_t<T>>();
    launch(cuda, "rotary_table", {blocks_for(tokens * half), kThreads}, fill_table<compute_t<T>>, angles, tokens, half, first_position,
           base, direction);
    const Rotary<T> of{x.data<T>(), y.data<T>(), angles, tokens, heads, half, rotated_heads};
    if (packs_fit<T>(half, of.x, of.y)) return rotate_runs<Pack<T>::kCount>(cuda, of, pairs);
    rotate_runs<1>(cuda, of, pairs);
  });
}

}  // namespace sluice::kernels
