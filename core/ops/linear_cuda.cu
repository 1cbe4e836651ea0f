#include "core/ops/columns_cuda.cuh"
#include "core/ops/linear.h"

namespace sluice::kernels {

namespace {

constexpr int kRowsInFlight = 4;  // loaded by a thread before the first is used

template <int kWidth, class T>
__global__ void sum_chunks(const T* dy, int64_t stride, compute_t<T>* partial, ColumnBlocks<kWidth> blocks) {
  compute_t<T> sums[kWidth] = {};
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowsInFlight * blockDim.y) {
    Run<kWidth, T> part[kRowsInFlight];
    for (int k = 0; k < kRowsInFlight; ++k) part[k] = blocks.load(dy, stride, row + k * blockDim.y);
    for (int k = 0; k < kRowsInFlight; ++k)
      for (int i = 0; i < kWidth; ++i) sums[i] += static_cast<compute_t<T>>(part[k].at[i]);
  }
  store_column_sums(blocks, sums, partial);
}

}  // namespace

void sum_rows(Cuda& cuda, const Tensor& dy, const Tensor&, const Tensor& partial) {
  on_float(dy.dtype(), "sum_rows", [&]<class T>() {
    const int64_t rows = dy.dim(0), columns = dy.dim(1), stride = dy.stride(0);
    const T* from = dy.data<T>();
    auto* sums = partial.data<compute_t<T>>();
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      launch(cuda, "sum_rows", blocks.shape(), sum_chunks<kWidth, T>, from, stride, sums, blocks);
    };
    // A row's last pack may reach past its columns, never past the 16 bytes of its last element: those sums are not stored.
    if (packs_fit<T>(stride, from)) return run(ColumnBlocks<Pack<T>::kCount>(rows, columns));
    run(ColumnBlocks<1>(rows, columns));
  });
}

}  // namespace sluice::kernels
