#include <algorithm>
#include <cstdlib>

#include "core/cuda/cudnn.h"
#include "core/cuda/launch.h"
#include "core/ops/attention.h"
#include "core/ops/attention_generic_cuda.cuh"
#include "core/ops/attention_mma_backward_cuda.cuh"
#include "core/ops/attention_mma_cuda.cuh"
#include "core/ops/attention_wgmma_backward_cuda.cuh"
#include "core/ops/indices_cuda.cuh"

namespace sluice::kernels {

namespace {

/// Blocks for tiles of `tile` rows of each head, and along y `columns` parts of the width.
dim3 grid_of(int samples, int heads, int rows, int tile, int columns = 1) {
  return dim3(static_cast<unsigned>(int64_t{samples} * heads * tiles_of(rows, tile)), static_cast<unsigned>(columns));
}

/// Calls f.template operator()<kHasLengths>().
template <class F>
void on_lengths(const AttentionSizes& sizes, F&& f) {
  sizes.has_lengths() ? f.template operator()<true>() : f.template operator()<false>();
}

bool has_shared_memory(const Cuda& cuda, size_t bytes) {
  int most = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda.index()));
  return bytes <= static_cast<size_t>(most);
}

/// Calls f.template operator()<kWidth>() with the least width of the kernels for tensor cores that holds `width`, and answers whether
/// there is one that this GPU has room for (sm_120 has it up to 80). The columns beyond `width` count as zeros.
template <class F>
bool on_mma_width(const Cuda& cuda, int width, F&& f) {
  const auto try_width = [&]<int kWidth>() {
    constexpr size_t kBytes =
        std::max({ForwardShape<kWidth>::kSharedBytes, QueryGradientShape<kWidth>::kSharedBytes, KeyGradientShape<kWidth>::kSharedBytes});
    if (width > kWidth || !has_shared_memory(cuda, kBytes)) return false;
    f.template operator()<kWidth>();
    return true;
  };
  return try_width.template operator()<64>() || try_width.template operator()<80>() || try_width.template operator()<96>() ||
         try_width.template operator()<128>() || try_width.template operator()<256>();
}

template <class... Views>
bool has_packs(const AttentionSizes& sizes, const Views&... views) {
  return packs_fit<bfloat16>(sizes.width) && (views.has_packs() && ...);
}

template <class T>
void attend_generic(Cuda& cuda, const AttentionSizes& sizes, Heads<T> q, Heads<T> k, Heads<T> v, const AttentionResult& result) {
  using C = compute_t<T>;
  const dim3 grid = grid_of(sizes.samples, sizes.heads, sizes.queries, kTile<C>, tiles_of(sizes.width, kTile<C>));
  launch(cuda, "attention", {grid, dim3(kSide, kSide)}, attend<T>, sizes, static_cast<C>(sizes.scale()), q, k, v, Heads<T>(result.y),
         result.log_sum_exp.data<C>());
}

/// SLUICE_WARPGROUPS=1 asks for the products of warpgroups, which Hopper has. Not by default: no GPU has run these kernels yet.
bool has_warpgroups(const Cuda& cuda) {
  const char* value = std::getenv("SLUICE_WARPGROUPS");
  return value && *value == '1' && cuda.compute_capability() == 90;
}
/// The widths of their kernels.
template <int kWidth>
constexpr bool kHasGroups = kWidth % kPanelColumns == 0 && kWidth <= 128;

template <int kWidth>
void attend_tiles(Cuda& cuda, const AttentionSizes& sizes, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v,
                  const AttentionResult& result) {
  const auto run = [&]<class Shape>(Shape, auto kernel) {
    launch(cuda, "attention", {grid_of(sizes.samples, sizes.heads, sizes.queries, Shape::kQueries), Shape::kThreads, Shape::kSharedBytes},
           kernel, sizes, static_cast<float>(sizes.scale()), q, k, v, Heads<bfloat16>(result.y), result.log_sum_exp.data<float>());
  };
  on_lengths(sizes, [&]<bool kHasLengths>() {
    if constexpr (kHasGroups<kWidth>)
      if (has_warpgroups(cuda)) return run(ForwardGroups<kWidth>{}, attend_wgmma<kWidth, kHasLengths>);
    run(ForwardShape<kWidth>{}, attend_mma<kWidth, kHasLengths>);
  });
}

/// What all backward kernels get.
template <class T>
struct Backward {
  AttentionSizes sizes;
  compute_t<T> scale;
  Heads<T> q, k, v, dy;
  compute_t<T>*log_sum_exp, *row_sums;
  Heads<T> dq, dk, dv;
};

template <class T>
void sum_rows(Cuda& cuda, const Backward<T>& x, const Heads<T>& y) {
  constexpr int kThreads = 256, kPack = Pack<T>::kCount;
  const int64_t threads = int64_t{x.sizes.samples} * x.sizes.heads * x.sizes.queries * kRowLanes;
  const bool packed = packs_fit<T>(x.sizes.width) && y.has_packs() && x.dy.has_packs();
  launch(cuda, "attention_row_sums", {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads},
         packed ? row_sums<T, kPack> : row_sums<T, 1>, x.sizes, y, x.dy, x.row_sums);
}

template <class T>
void differentiate_generic(Cuda& cuda, const Backward<T>& x) {
  constexpr int kRows = kTile<compute_t<T>>;
  const int columns = tiles_of(x.sizes.width, kRows);
  if (x.dq.data)
    launch(cuda, "attention_query_gradient", {grid_of(x.sizes.samples, x.sizes.heads, x.sizes.queries, kRows, columns), dim3(kSide, kSide)},
           query_gradient<T>, x.sizes, x.scale, x.q, x.k, x.v, x.dy, x.log_sum_exp, x.row_sums, x.dq);
  if (x.dk.data || x.dv.data)
    launch(cuda, "attention_key_gradients", {grid_of(x.sizes.samples, x.sizes.key_heads, x.sizes.keys, kRows, columns), dim3(kSide, kSide)},
           key_gradients<T>, x.sizes, x.scale, x.q, x.k, x.v, x.dy, x.log_sum_exp, x.row_sums, x.dk, x.dv);
}

/// dq by a kernel over tiles of queries, dk and dv by one over tiles of keys.
template <class OfQueries, class OfKeys, class QueryKernel, class KeyKernel>
void differentiate_by(Cuda& cuda, const Backward<bfloat16>& x, int parts_of_keys, QueryKernel of_queries, KeyKernel of_keys) {
  const AttentionSizes& sizes = x.sizes;
  const dim3 queries = grid_of(sizes.samples, sizes.heads, sizes.queries, OfQueries::kQueries),
             keys = grid_of(sizes.samples, sizes.key_heads, sizes.keys, OfKeys::kKeys, parts_of_keys);
  if (x.dq.data)
    launch(cuda, "attention_query_gradient", {queries, OfQueries::kThreads, OfQueries::kSharedBytes}, of_queries, sizes, x.scale, x.q, x.k,
           x.v, x.dy, x.log_sum_exp, x.row_sums, x.dq);
  if (x.dk.data || x.dv.data)
    launch(cuda, "attention_key_gradients", {keys, OfKeys::kThreads, OfKeys::kSharedBytes}, of_keys, sizes, x.scale, x.q, x.k, x.v, x.dy,
           x.log_sum_exp, x.row_sums, x.dk, x.dv);
}

template <int kWidth>
void differentiate_tiles(Cuda& cuda, const Backward<bfloat16>& x) {
  on_lengths(x.sizes, [&]<bool kHasLengths>() {
    if constexpr (kHasGroups<kWidth>)
      if (has_warpgroups(cuda))
        return differentiate_by<QueryGradientGroups<kWidth>, KeyGradientGroups<kWidth>>(
            cuda, x, 1, query_gradient_wgmma<kWidth, kHasLengths>, key_gradients_wgmma<kWidth, kHasLengths>);
    using OfKeys = KeyGradientShape<kWidth>;
    differentiate_by<QueryGradientShape<kWidth>, OfKeys>(cuda, x, OfKeys::kApart ? 2 : 1, query_gradient_mma<kWidth, kHasLengths>,
                                                         key_gradients_mma<kWidth, kHasLengths>);
  });
}

void attend_by_own(Cuda& cuda, const AttentionSizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionResult& result) {
  on_float(q.dtype(), "attention", [&]<class T>() {
    const Heads<T> queries(q), keys(k), values(v);
    if constexpr (std::is_same_v<T, bfloat16>)
      if (has_packs(sizes, queries, keys, values) &&
          on_mma_width(cuda, sizes.width, [&]<int kWidth>() { attend_tiles<kWidth>(cuda, sizes, queries, keys, values, result); }))
        return;
    attend_generic<T>(cuda, sizes, queries, keys, values, result);
  });
}

template <class T>
void differentiate_by_own(Cuda& cuda, const Backward<T>& x, const Heads<T>& y) {
  sum_rows<T>(cuda, x, y);
  if constexpr (std::is_same_v<T, bfloat16>)
    if (has_packs(x.sizes, x.q, x.k, x.v, x.dy, x.dq, x.dk, x.dv) &&
        on_mma_width(cuda, x.sizes.width, [&]<int kWidth>() { differentiate_tiles<kWidth>(cuda, x); }))
      return;
  differentiate_generic<T>(cuda, x);
}

/// Keeps the first sample whose length does not fit its tensor.
__global__ void check_lengths(const int32_t* lengths, int samples, int longest, Cuda::FaultKind kind, Cuda::Faults* faults) {
  for (int i = threadIdx.x; i < samples; i += blockDim.x)
    if (lengths[i] < 0 || lengths[i] > longest) keep_fault(faults, kind, i, lengths[i], int64_t{longest} + 1);
}

/// Once a forward: backward has the same.
void report_bad_lengths(Cuda& cuda, const AttentionSizes& sizes) {
  const auto check = [&](const int32_t* lengths, int longest, Cuda::FaultKind kind) {
    if (lengths && sizes.samples > 0)
      launch(cuda, "attention_check_lengths", {1, 128}, check_lengths, lengths, sizes.samples, longest, kind, cuda.faults());
  };
  check(sizes.query_lengths, sizes.queries, Cuda::FaultKind::query_length);
  check(sizes.key_lengths, sizes.keys, Cuda::FaultKind::key_length);
}

/// cuDNN serves calls without lengths.
bool may_be_cudnns(const AttentionSizes& sizes, const Tensor& q) { return q.dtype() == DType::bf16 && !sizes.has_lengths(); }

cudnn::HeadStrides strides_of(const Tensor& x) {
  return x.defined() ? cudnn::HeadStrides{x.stride(0), x.stride(1), x.stride(2)} : cudnn::HeadStrides{};
}

void* address_of(const Tensor& x) { return x.defined() ? const_cast<void*>(x.data()) : nullptr; }

/// As cuDNN sees the call, but for what only backward has.
cudnn::Attention description_of(const AttentionSizes& sizes, bool backward, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor& y) {
  return {.backward = backward,
          .causal = sizes.causal,
          .samples = sizes.samples,
          .queries = sizes.queries,
          .keys = sizes.keys,
          .heads = sizes.heads,
          .key_heads = sizes.key_heads,
          .width = sizes.width,
          .q = strides_of(q),
          .k = strides_of(k),
          .v = strides_of(v),
          .y = strides_of(y),
          .dy = {},
          .dq = {},
          .dk = {},
          .dv = {},
          .slices = {sizes.samples, sizes.heads}};
}

}  // namespace

void attention(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, const AttentionResult& result,
               const Tensor&) {
  const AttentionSizes sizes(q, k, mask);
  report_bad_lengths(cuda, sizes);
  const auto own = [&] { attend_by_own(cuda, sizes, q, k, v, result); };
  const cudnn::AttentionOperands on{q.data(), k.data(), v.data(), address_of(result.y), address_of(result.log_sum_exp)};
  if (!may_be_cudnns(sizes, q) || !cudnn::attend(cuda, description_of(sizes, false, q, k, v, result.y), on, own)) own();
}

void attention_backward(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch) {
  const AttentionSizes sizes(q, k, mask);
  const auto own = [&] {
    on_float(q.dtype(), "attention", [&]<class T>() {
      using C = compute_t<T>;
      const Backward<T> x{sizes,        static_cast<C>(sizes.scale()), Heads<T>(q),       Heads<T>(k),  Heads<T>(v),
                          Heads<T>(dy), result.log_sum_exp.data<C>(),  scratch.data<C>(), Heads<T>(dq), Heads<T>(dk),
                          Heads<T>(dv)};
      differentiate_by_own<T>(cuda, x, Heads<T>(result.y));
    });
  };
  cudnn::Attention of = description_of(sizes, true, q, k, v, result.y);
  const AttentionGpuScratch parts = attention_gpu_scratch(q, k, mask);
  of.slices = parts.slices;
  if (parts.workspace == 0) of.slices.workspace_bytes = 0;  // none was made: no plan may count on it
  of.dy = strides_of(dy), of.dq = strides_of(dq), of.dk = strides_of(dk), of.dv = strides_of(dv);
  const cudnn::AttentionOperands on{q.data(),
                                    k.data(),
                                    v.data(),
                                    address_of(result.y),
                                    address_of(result.log_sum_exp),
                                    dy.data(),
                                    address_of(scratch),
                                    address_of(dq),
                                    address_of(dk),
                                    address_of(dv),
                                    parts.workspace == 0 ? nullptr : scratch.data<float>() + parts.workspace};
  if (!may_be_cudnns(sizes, q) || !cudnn::attend(cuda, of, on, own)) own();
}

}  // namespace sluice::kernels
