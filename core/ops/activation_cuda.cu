#include "core/ops/activation.h"
#include "core/ops/columns_cuda.cuh"
#include "core/ops/elementwise_rules.h"

namespace sluice::kernels {

namespace {

constexpr int kRowsInFlight = 4, kRowPairsInFlight = 2;  // loaded by a thread before the first is used

template <class Rule, int kWidth, class T>
__global__ void bias_forward(const T* x, const T* bias, T* y, ColumnBlocks<kWidth> blocks) {
  if (!blocks.has(blocks.first_row())) return;
  const Run<kWidth, T> offset = load_run<kWidth>(bias + blocks.column());
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowsInFlight * blockDim.y) {
    Run<kWidth, T> part[kRowsInFlight];
    for (int k = 0; k < kRowsInFlight; ++k) part[k] = blocks.load(x, row + k * blockDim.y);
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (!blocks.has(row + k * blockDim.y)) break;
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        part[k].at[i] = static_cast<T>(Rule::value(Scalar<T>(part[k].at[i]) + Scalar<T>(offset.at[i])).value);
      blocks.store(y, row + k * blockDim.y, part[k]);
    }
  }
}

/// dx, partial or bias may be null.
template <class Rule, int kWidth, class T>
__global__ void bias_backward(const T* x, const T* bias, const T* dy, T* dx, compute_t<T>* partial, ColumnBlocks<kWidth> blocks) {
  using C = compute_t<T>;
  Run<kWidth, T> offset{};
  if (bias && blocks.has(blocks.first_row())) offset = load_run<kWidth>(bias + blocks.column());
  C sums[kWidth] = {};
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowPairsInFlight * blockDim.y) {
    Run<kWidth, T> part[kRowPairsInFlight], gradient[kRowPairsInFlight];
    for (int k = 0; k < kRowPairsInFlight; ++k) {
      part[k] = blocks.load(x, row + k * blockDim.y);
      gradient[k] = blocks.load(dy, row + k * blockDim.y);
    }
#pragma unroll
    for (int k = 0; k < kRowPairsInFlight; ++k) {
      if (!blocks.has(row + k * blockDim.y)) break;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const C slope = Rule::slope(Scalar<T>(part[k].at[i]) + Scalar<T>(offset.at[i])).value;
        const C result = static_cast<C>(gradient[k].at[i]) * slope;
        sums[i] += result;
        part[k].at[i] = static_cast<T>(result);
      }
      if (dx) blocks.store(dx, row + k * blockDim.y, part[k]);
    }
  }
  if (partial) store_column_sums(blocks, sums, partial);
}

/// {a, b} -> {silu(a) b}
template <class T>
struct Gated {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[2], C (&y)[1]) const { y[0] = rules::Silu::value(Scalar<T>(x[0])).value * x[1]; }
};

/// {a, b, dy} -> {da, db}
template <class T>
struct GatedBackward {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[3], C (&dx)[2]) const {
    dx[0] = x[2] * x[1] * rules::Silu::slope(Scalar<T>(x[0])).value;
    dx[1] = x[2] * rules::Silu::value(Scalar<T>(x[0])).value;
  }
};

/// The elements, or null where the tensor is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace

void bias_activation(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& y) {
  on_float(x.dtype(), "bias_activation", [&]<class T>() {
    const T *from = x.data<T>(), *offset = bias.data<T>();
    T* to = y.data<T>();
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      on_bias_activation(rule, [&]<class Rule>() {
        launch(cuda, "bias_activation", blocks.shape(), bias_forward<Rule, kWidth, T>, from, offset, to, blocks);
      });
    };
    on_columns<T>(x.shape().elements_before(-1), x.dim(-1), run, from, offset, to);
  });
}

void bias_activation_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                              const Tensor& partial) {
  on_float(x.dtype(), "bias_activation_backward", [&]<class T>() {
    const T *from = x.data<T>(), *offset = data_or_null<T>(bias), *gradient = dy.data<T>();
    T* to = data_or_null<T>(dx);
    auto* sums = data_or_null<compute_t<T>>(partial);
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      on_bias_activation(rule, [&]<class Rule>() {
        launch(cuda, "bias_activation_backward", blocks.shape(), bias_backward<Rule, kWidth, T>, from, offset, gradient, to, sums, blocks);
      });
    };
    on_columns<T>(x.shape().elements_before(-1), x.dim(-1), run, from, offset, gradient, to);
  });
}

void mul_silu(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& y) {
  on_float(a.dtype(), "mul_silu", [&]<class T>() {
    map(cuda, "mul_silu", Gated<T>{}, MapArrays<T, 2, 1>{{a.data<T>(), b.data<T>()}, {y.data<T>()}}, a.elements());
  });
}

void mul_silu_backward(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da, const Tensor& db) {
  on_float(a.dtype(), "mul_silu_backward", [&]<class T>() {
    map(cuda, "mul_silu_backward", GatedBackward<T>{},
        MapArrays<T, 3, 2>{{a.data<T>(), b.data<T>(), dy.data<T>()}, {data_or_null<T>(da), data_or_null<T>(db)}}, a.elements());
  });
}

}  // namespace sluice::kernels
