#include "core/ops/rows_cuda.cuh"
#include "core/ops/softmax.h"

namespace sluice::kernels {

namespace {

constexpr int kPacksOfThread = 4;

/// Of a whole row, known to all threads of its team.
template <class T, int kPacks>
__device__ OnlineSum<compute_t<T>> online_sum(Row<T, kPacks>& row) {
  OnlineSum<compute_t<T>> total;
  each_pack([&](int, int, const Pack<T>& pack) { total.add(pack); }, row);
  return total.of_team();
}

template <class T, int kPacks, bool kLogarithm>
__global__ void __launch_bounds__(kMostRowThreads) softmax_rows(const T* x, T* y, int64_t rows, int columns, bool packed) {
  using C = compute_t<T>;
  const int64_t at_row = team_row(), offset = at_row * columns;
  const int n = at_row < rows ? columns : 0;
  Row<T, kPacks> row(x + offset, n, packed, -static_cast<C>(INFINITY));
  const OnlineSum<C> total = online_sum(row);
  const C scale = kLogarithm ? ::log(total.sum) : 1 / total.sum;
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
        Pack<T> result;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) {
          const C shifted = static_cast<C>(pack.at[j]) - total.maximum;
          result.at[j] = static_cast<T>(kLogarithm ? shifted - scale : exponential(shifted) * scale);
        }
        write_pack(y + offset, at, n, packed, result);
      },
      row);
}

template <class T, int kPacks, bool kLogarithm>
__global__ void __launch_bounds__(kMostRowThreads)
    softmax_gradients(const T* y, const T* dy, T* dx, int64_t rows, int columns, bool packed) {
  using C = compute_t<T>;
  const int64_t at_row = team_row(), offset = at_row * columns;
  const int n = at_row < rows ? columns : 0;
  Row<T, kPacks> values(y + offset, n, packed), gradients(dy + offset, n, packed);
  C sum = 0;
  each_pack(
      [&](int, int, const Pack<T>& value, const Pack<T>& gradient) {
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j)
          sum += kLogarithm ? static_cast<C>(gradient.at[j]) : static_cast<C>(value.at[j]) * static_cast<C>(gradient.at[j]);
      },
      values, gradients);
  sum = team_sum(sum);
  each_pack(
      [&](int, int at, const Pack<T>& value, const Pack<T>& gradient) {
        Pack<T> result;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) {
          const C p = value.at[j], g = gradient.at[j];
          result.at[j] = static_cast<T>(kLogarithm ? g - exponential(p) * sum : p * (g - sum));
        }
        write_pack(dx + offset, at, n, packed, result);
      },
      values, gradients);
}

/// Where its maximum is infinite a row's logarithm is that: of the sum only NaN is left.
template <class T, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads) logsumexp_rows(const T* x, T* y, int64_t rows, int columns, bool packed) {
  using C = compute_t<T>;
  const int64_t at_row = team_row();
  const bool exists = at_row < rows;
  Row<T, kPacks> row(x + at_row * columns, exists ? columns : 0, packed, -static_cast<C>(INFINITY));
  const OnlineSum<C> total = online_sum(row);
  if (exists && threadIdx.x == 0) y[at_row] = static_cast<T>(total.maximum + (::isinf(total.maximum) ? C(0) : ::log(total.sum)));
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads)
    logsumexp_gradients(const T* x, const T* dy, T* dx, int64_t rows, int columns, bool packed) {
  using C = compute_t<T>;
  const int64_t at_row = team_row(), offset = at_row * columns;
  const int n = at_row < rows ? columns : 0;
  Row<T, kPacks> row(x + offset, n, packed, -static_cast<C>(INFINITY));
  const OnlineSum<C> total = online_sum(row);
  const C origin = total.origin(), gradient = n > 0 ? static_cast<C>(dy[at_row]) : C(0);
  const C scale = total.maximum == -static_cast<C>(INFINITY) ? C(0) : gradient / total.sum;
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
        Pack<T> result;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) result.at[j] = static_cast<T>(exponential(static_cast<C>(pack.at[j]) - origin) * scale);
        write_pack(dx + offset, at, n, packed, result);
      },
      row);
}

template <bool kLogarithm>
void forward(Cuda& cuda, const char* name, const Tensor& x, const Tensor& y) {
  const int64_t n = x.dim(-1), rows = x.elements() / n;
  on_float(x.dtype(), name, [&]<class T>() {
    on_rows<T, kPacksOfThread>(n, [&]<int kPacks>(const RowTeams& teams) {
      launch(cuda, name, {teams.grid(rows), teams.block()}, softmax_rows<T, kPacks, kLogarithm>, x.data<T>(), y.data<T>(), rows,
             static_cast<int>(n), packs_fit<T>(n, x.data<T>(), y.data<T>()));
    });
  });
}

template <bool kLogarithm>
void backward(Cuda& cuda, const char* name, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const int64_t n = y.dim(-1), rows = y.elements() / n;
  on_float(y.dtype(), name, [&]<class T>() {
    on_rows<T, kPacksOfThread>(n, [&]<int kPacks>(const RowTeams& teams) {
      launch(cuda, name, {teams.grid(rows), teams.block()}, softmax_gradients<T, kPacks, kLogarithm>, y.data<T>(), dy.data<T>(),
             dx.data<T>(), rows, static_cast<int>(n), packs_fit<T>(n, y.data<T>(), dy.data<T>(), dx.data<T>()));
    });
  });
}

}  // namespace

void softmax(Cuda& cuda, const Tensor& x, const Tensor& y) { forward<false>(cuda, "softmax", x, y); }
void softmax_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  backward<false>(cuda, "softmax_backward", y, dy, dx);
}
void log_softmax(Cuda& cuda, const Tensor& x, const Tensor& y) { forward<true>(cuda, "log_softmax", x, y); }
void log_softmax_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  backward<true>(cuda, "log_softmax_backward", y, dy, dx);
}

void logsumexp(Cuda& cuda, const Tensor& x, const Tensor& y) {
  const int64_t n = x.dim(-1), rows = y.elements();
  on_float(x.dtype(), "logsumexp", [&]<class T>() {
    on_rows<T, kPacksOfThread>(n, [&]<int kPacks>(const RowTeams& teams) {
      launch(cuda, "logsumexp", {teams.grid(rows), teams.block()}, logsumexp_rows<T, kPacks>, x.data<T>(), y.data<T>(), rows,
             static_cast<int>(n), packs_fit<T>(n, x.data<T>()));
    });
  });
}

void logsumexp_backward(Cuda& cuda, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const int64_t n = x.dim(-1), rows = dy.elements();
  on_float(x.dtype(), "logsumexp_backward", [&]<class T>() {
    on_rows<T, kPacksOfThread>(n, [&]<int kPacks>(const RowTeams& teams) {
      launch(cuda, "logsumexp_backward", {teams.grid(rows), teams.block()}, logsumexp_gradients<T, kPacks>, x.data<T>(), dy.data<T>(),
             dx.data<T>(), rows, static_cast<int>(n), packs_fit<T>(n, x.data<T>(), dx.data<T>()));
    });
  });
}

}  // namespace sluice::kernels
