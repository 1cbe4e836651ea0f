#include "core/ops/product_factors.h"
#include "core/ops/reduction.h"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kPacksOfThread = 4;  // in flight
constexpr int kThreads = 256;
constexpr int kMostColumnThreads = 16;  // along a row; so a block reads 256 neighbouring bytes

struct Sum {
  template <class A>
  __device__ static A identity() {
    return 0;
  }
  template <class A>
  __device__ static A combine(A a, A b) {
    return a + b;
  }
  template <class A>
  __device__ static A of_team(A value) {
    return team_sum(value);
  }
};
struct Product : Sum {
  template <class A>
  __device__ static A identity() {
    return 1;
  }
  template <class A>
  __device__ static A combine(A a, A b) {
    return a * b;
  }
  template <class A>
  __device__ static A of_team(A value) {
    return team_combine(value, identity<A>(), [](A x) {
      for (int distance = kWarpSize / 2; distance > 0; distance /= 2) x *= __shfl_xor_sync(kWholeWarp, x, distance);
      return x;
    });
  }
};
struct Max : Sum {
  template <class A>
  __device__ static A identity() {
    return -static_cast<A>(INFINITY);
  }
  template <class A>
  __device__ static A combine(A a, A b) {
    return larger(a, b);
  }
  template <class A>
  __device__ static A of_team(A value) {
    return team_combine(value, identity<A>(), [](A x) { return warp_max(x); });
  }
};

/// One pass: x [outer, n, inner] in chunks of `items` of n -> y [outer, chunks, inner].
struct Pass {
  int64_t outer, n, inner, items, chunks;
  double factor;
};

/// inner == 1: a team reduces a chunk, which lies in one piece.
template <class Rule, class A, class From, class To>
__global__ void __launch_bounds__(kMostRowThreads) reduce_runs(const From* x, To* y, Pass pass, bool packed) {
  constexpr int kCount = Pack<From>::kCount;
  const int64_t at = team_row(), first = at % pass.chunks * pass.items;
  const bool exists = at < pass.outer * pass.chunks;
  const int n = exists ? static_cast<int>(::min(pass.items, pass.n - first)) : 0;
  A sums[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) sums[j] = Rule::template identity<A>();
  Row<From, 0> row(x + at / pass.chunks * pass.n + first, n, packed, Rule::template identity<compute_t<From>>());
  each_pack(
      [&](int, int, const Pack<From>& pack) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) sums[j] = Rule::combine(sums[j], static_cast<A>(pack.at[j]));
      },
      row);
#pragma unroll
  for (int j = 1; j < kCount; ++j) sums[0] = Rule::combine(sums[0], sums[j]);
  const A total = Rule::of_team(sums[0]);
  if (exists && threadIdx.x == 0) y[at] = static_cast<To>(total * static_cast<A>(pass.factor));
}

/// A block [threads along a row, rows at a time] reduces a chunk of the columns that its threads see, one pack each.
template <class Rule, class A, class From, class To>
__global__ void __launch_bounds__(kThreads) reduce_columns(const From* x, To* y, Pass pass, int64_t column_blocks, bool packed) {
  constexpr int kCount = Pack<From>::kCount;
  __shared__ A of_thread[kCount][kThreads];
  const int64_t part = blockIdx.x / column_blocks, first = part % pass.chunks * pass.items;
  const int columns = static_cast<int>(pass.inner);
  const int at = static_cast<int>(blockIdx.x % column_blocks * blockDim.x + threadIdx.x) * kCount;
  const From* from = x + (part / pass.chunks * pass.n + first) * pass.inner;
  const int64_t items = ::min(pass.items, pass.n - first);
  A sums[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) sums[j] = Rule::template identity<A>();
  for (int64_t begin = threadIdx.y; begin < items; begin += kPacksOfThread * blockDim.y) {
    Whole<Pack<From>> rows[kPacksOfThread];
#pragma unroll
    for (int k = 0; k < kPacksOfThread; ++k) {
      const int64_t i = begin + k * blockDim.y;
      rows[k] = read_whole(from + i * pass.inner, at, i < items ? columns : 0, packed);
    }
#pragma unroll
    for (int k = 0; k < kPacksOfThread; ++k) {
      if (begin + k * blockDim.y >= items) break;
      const auto pack = std::bit_cast<Pack<From>>(rows[k]);
#pragma unroll
      for (int j = 0; j < kCount; ++j) sums[j] = Rule::combine(sums[j], static_cast<A>(pack.at[j]));
    }
  }
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  for (int height = blockDim.y / 2;; height /= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) of_thread[j][mine] = sums[j];
    __syncthreads();
    if (height == 0) break;
    if (static_cast<int>(threadIdx.y) < height)
#pragma unroll
      for (int j = 0; j < kCount; ++j) sums[j] = Rule::combine(sums[j], of_thread[j][mine + height * blockDim.x]);
    __syncthreads();
  }
  if (threadIdx.y > 0) return;
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    if (at + j < columns) y[part * pass.inner + at + j] = static_cast<To>(sums[j] * static_cast<A>(pass.factor));
}

/// Threads along a row of `columns` accesses, and above them as many rows as fill a block. Powers of two.
dim3 column_block(int64_t columns) {
  unsigned x = 1;
  while (x < kMostColumnThreads && x < columns) x *= 2;
  return dim3(x, kThreads / x);
}

template <class Rule, class A, class From, class To>
void run_pass(Cuda& cuda, const From* x, To* y, const Pass& pass) {
  constexpr int kCount = Pack<From>::kCount;
  if (pass.inner == 1) {
    const RowTeams teams = RowTeams::of<From>(std::min(pass.n, pass.items), kPacksOfThread);
    const bool packed = packs_fit<From>(pass.n, x) && (pass.chunks == 1 || pass.items % kCount == 0);
    launch(cuda, "reduce", {teams.grid(pass.outer * pass.chunks), teams.block()}, reduce_runs<Rule, A, From, To>, x, y, pass, packed);
    return;
  }
  require<UsageError>(pass.inner <= int64_t{1} << 30, "reduce on cuda: needs at most 2^30 columns, got ", pass.inner);
  const int64_t packs = (pass.inner + kCount - 1) / kCount;
  const dim3 block = column_block(packs);
  const int64_t column_blocks = (packs + block.x - 1) / block.x;
  launch(cuda, "reduce", {dim3(static_cast<unsigned>(pass.outer * pass.chunks * column_blocks)), block}, reduce_columns<Rule, A, From, To>,
         x, y, pass, column_blocks, packs_fit<From>(pass.inner, x));
}

/// The chunks, then what they gave.
template <class Rule, class T, class A, class To>
void reduce_as(Cuda& cuda, const ReductionView& view, const T* x, A* partial, double factor, To* y) {
  const int64_t chunks = view.chunks();
  const Pass all{view.outer, view.n, view.inner, view.chunk_items(), chunks, factor};
  if (chunks == 1) return run_pass<Rule, A>(cuda, x, y, all);
  Pass first = all;
  first.factor = 1;
  run_pass<Rule, A>(cuda, x, partial, first);
  run_pass<Rule, A>(cuda, static_cast<const A*>(partial), y, {view.outer, chunks, view.inner, chunks, 1, factor});
}

/// Of [outer, n, inner] a block takes neighbouring columns, its rows of threads every blockDim.y-th item of them. `at` is the thread's column
/// in [outer, inner], `first` its first item.
struct Column {
  __device__ Column(int64_t n, int64_t inner, int64_t column_blocks) {
    const int64_t outer = blockIdx.x / column_blocks, column = blockIdx.x % column_blocks * blockDim.x + threadIdx.x;
    exists = column < inner;
    at = outer * inner + column;
    first = outer * n * inner + column;
  }
  bool exists;
  int64_t at, first;
};

/// dx = dy / (number of maxima) at the maxima.
template <class T>
__global__ void __launch_bounds__(kThreads)
    max_gradients(const T* x, const T* y, const T* dy, T* dx, int64_t n, int64_t inner, int64_t column_blocks) {
  using A = compute_t<T>;
  __shared__ int of_thread[kThreads];
  const auto [exists, at, first] = Column(n, inner, column_blocks);
  const A top = exists ? static_cast<A>(y[at]) : A(0), gradient = exists ? static_cast<A>(dy[at]) : A(0);
  int ties = 0;
  if (exists)
    for (int64_t i = threadIdx.y; i < n; i += blockDim.y) ties += static_cast<A>(x[first + i * inner]) == top;
  of_thread[threadIdx.y * blockDim.x + threadIdx.x] = ties;
  __syncthreads();
  if (!exists) return;
  ties = 0;
  for (int row = 0; row < static_cast<int>(blockDim.y); ++row) ties += of_thread[row * blockDim.x + threadIdx.x];
  const A others = ties > 0 ? A(0) : static_cast<A>(NAN);  // a NaN equals nothing
  for (int64_t i = threadIdx.y; i < n; i += blockDim.y)
    dx[first + i * inner] = static_cast<T>(static_cast<A>(x[first + i * inner]) == top ? gradient / static_cast<A>(ties) : others);
}

/// dx = dy * the product of the other items of the column.
template <class T>
__global__ void __launch_bounds__(kThreads)
    prod_gradients(const T* x, const T* dy, T* dx, int64_t n, int64_t inner, int64_t column_blocks) {
  using A = compute_t<T>;
  __shared__ A products[kThreads];
  __shared__ int64_t zeros[kThreads], not_finite[kThreads];
  const auto [exists, at, first] = Column(n, inner, column_blocks);
  Factors<A> factors;
  if (exists)
    for (int64_t i = threadIdx.y; i < n; i += blockDim.y) factors.add(static_cast<A>(x[first + i * inner]));
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  products[mine] = factors.product;
  zeros[mine] = factors.zeros;
  not_finite[mine] = factors.not_finite;
  __syncthreads();
  if (!exists) return;
  factors = {};
  for (int row = 0; row < static_cast<int>(blockDim.y); ++row) {
    const int other = row * blockDim.x + threadIdx.x;
    factors.add(Factors<A>{products[other], zeros[other], not_finite[other]});
  }
  const A gradient = static_cast<A>(dy[at]);
  for (int64_t i = threadIdx.y; i < n; i += blockDim.y)
    dx[first + i * inner] = static_cast<T>(gradient * factors.without(static_cast<A>(x[first + i * inner])));
}

}  // namespace

void reduce(Cuda& cuda, Reduction rule, const ReductionView& view, const Tensor& x, const Tensor& partial, double factor, const Tensor& y) {
  if (y.elements() == 0) return;
  on_float(x.dtype(), "reduce", [&]<class T>() {
    const T* from = x.data<T>();
    auto* parts = partial.data<compute_t<T>>();
    const auto reduce_to = [&](auto* to) {
      switch (rule) {
        case Reduction::Sum:
          return reduce_as<Sum>(cuda, view, from, parts, factor, to);
        case Reduction::Product:
          return reduce_as<Product>(cuda, view, from, parts, factor, to);
        case Reduction::Max:
          return reduce_as<Max>(cuda, view, from, parts, factor, to);
      }
    };
    y.dtype() == x.dtype() ? reduce_to(y.data<T>()) : reduce_to(y.data<compute_t<T>>());
  });
}

void max_backward(Cuda& cuda, const ReductionView& view, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const dim3 block = column_block(view.inner);
  const int64_t column_blocks = (view.inner + block.x - 1) / block.x;
  on_float(x.dtype(), "max_backward", [&]<class T>() {
    launch(cuda, "max_backward", {dim3(static_cast<unsigned>(view.outer * column_blocks)), block}, max_gradients<T>, x.data<T>(),
           y.data<T>(), dy.data<T>(), dx.data<T>(), view.n, view.inner, column_blocks);
  });
}

void prod_backward(Cuda& cuda, const ReductionView& view, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const dim3 block = column_block(view.inner);
  const int64_t column_blocks = (view.inner + block.x - 1) / block.x;
  on_float(x.dtype(), "prod_backward", [&]<class T>() {
    launch(cuda, "prod_backward", {dim3(static_cast<unsigned>(view.outer * column_blocks)), block}, prod_gradients<T>, x.data<T>(),
           dy.data<T>(), dx.data<T>(), view.n, view.inner, column_blocks);
  });
}

}  // namespace sluice::kernels
