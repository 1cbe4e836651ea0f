#include "core/ops/attention.h"

#include <algorithm>

#include "core/dispatch.h"
#include "core/ops/copy.h"

namespace sluice {

namespace {

void check_lengths(const char* whose, const Tensor& lengths, int64_t samples) {
  require(!lengths.defined() || (lengths.shape() == Shape{samples} && lengths.dtype() == DType::i32), "attention: needs ", whose,
          " lengths i32 [", samples, "], got ", lengths);
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask) {
  require(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape(), "attention: needs q [B, T, H, N] and k, v [B, S, G, N], got ",
          q.shape(), ", ", k.shape(), " and ", v.shape());
  require(q.dim(0) == k.dim(0) && q.dim(3) == k.dim(3), "attention: needs equal samples and head widths, got q ", q.shape(), " and k ",
          k.shape());
  require(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0, "attention: needs key heads that divide the query heads, got q ", q.shape(), " and k ",
          k.shape());
  require(k.dim(1) > 0 || q.elements() == 0, "attention: needs at least one key, got k ", k.shape());
  require(!mask.causal || k.dim(1) >= q.dim(1), "attention: causal needs at least as many keys as queries, got q ", q.shape(), " and k ",
          k.shape());
  require(q.dtype() == k.dtype() && q.dtype() == v.dtype() && is_floating(q.dtype()), "attention: needs one floating dtype, got ", q, ", ",
          k, " and ", v);
  check_lengths("query", mask.query_lengths, q.dim(0));
  check_lengths("key", mask.key_lengths, q.dim(0));
}

void check_target(const Tensor& gradient, const Tensor& of) {
  require(!gradient.defined() ||
              (gradient.shape() == of.shape() && gradient.dtype() == of.dtype() && (of.dim(3) <= 1 || gradient.stride(3) == 1)),
          "attention: needs room for the gradient of ", of.shape(), " with a contiguous last axis, got ", gradient);
}

AttentionMask with_contiguous_lengths(const AttentionMask& mask) {
  const auto contiguous = [](const Tensor& x) { return x.defined() ? x.contiguous() : x; };
  return {mask.causal, contiguous(mask.query_lengths), contiguous(mask.key_lengths)};
}

/// A copy also of what expand() repeats: neither our kernels nor cuDNN's plans were tried with strides of 0.
Tensor with_unit_last_stride(const Tensor& x) { return x.stride(-1) == 1 && !x.repeats_elements() ? x : x.contiguous(); }

/// FLOPs and bytes when each visible pair takes `flops` per element of a head.
Cost cost_of(const Tensor& q, const Tensor& k, bool causal, double flops, double tensors) {
  const double queries = static_cast<double>(q.dim(1)), keys = static_cast<double>(k.dim(1));
  const double pairs = causal ? queries * (keys - queries) + queries * (queries + 1) / 2 : queries * keys;
  const double bytes = tensors * static_cast<double>(q.bytes() + k.bytes());
  return {flops * pairs * q.dim(0) * q.dim(2) * q.dim(3), bytes, bytes / 2};
}

/// CPU: a part for each thread. CUDA: see attention_gpu_scratch.
Tensor scratch_for(const Tensor& q, const Tensor& k, const AttentionMask& mask, bool backward) {
  if (q.device().backend() == DeviceKind::cuda)
    return empty({backward ? kernels::attention_gpu_scratch(q, k, mask).elements : 0}, compute_dtype(q.dtype()), q.device_ptr());
  const int64_t slots = std::min<int64_t>(q.device().options().threads, k.dim(0) * k.dim(2));
  return empty({slots, kernels::attention_scratch(q, k, backward)}, compute_dtype(q.dtype()), q.device_ptr());
}

}  // namespace

kernels::AttentionGpuScratch kernels::attention_gpu_scratch(const Tensor& q, const Tensor& k, const AttentionMask& mask) {
  constexpr int64_t kWorkspaceAlignment = 256 / sizeof(float);
  AttentionGpuScratch scratch{q.dim(0) * q.dim(2) * q.dim(1), attention_slices(q.dim(0), q.dim(2), q.dim(1), k.dim(1))};
  const bool may_be_cudnns =
      q.dtype() == DType::bf16 && !mask.query_lengths.defined() && !mask.key_lengths.defined() && k.dim(2) == q.dim(2);
  if (!may_be_cudnns || scratch.slices.workspace_bytes == 0) return scratch;
  scratch.workspace = (scratch.elements + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  scratch.elements = scratch.workspace + scratch.slices.workspace_bytes / static_cast<int64_t>(sizeof(float));
  return scratch;
}

AttentionResult attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& given) {
  check(q, k, v, given);
  const AttentionMask mask = with_contiguous_lengths(given);
  const Tensor queries = with_unit_last_stride(q), keys = with_unit_last_stride(k), values = with_unit_last_stride(v);
  const AttentionResult result{empty_like(q), empty({q.dim(0), q.dim(2), q.dim(1)}, compute_dtype(q.dtype()), q.device_ptr())};
  const Tensor scratch = scratch_for(q, k, mask, false);
  run_kernel("attention", {queries, keys, values, mask.query_lengths, mask.key_lengths}, cost_of(q, k, mask.causal, 4, 2),
             [&](auto& context) { kernels::attention(context, queries, keys, values, mask, result, scratch); });
  return result;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& given) {
  return attention_forward(q, k, v, given).y;
}

void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& given, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  check(q, k, v, given);
  const AttentionMask mask = with_contiguous_lengths(given);
  require(dy.shape() == q.shape(), "attention: needs a gradient of the shape of q ", q.shape(), ", got ", dy.shape());
  check_target(dq, q);
  check_target(dk, k);
  check_target(dv, v);
  const Tensor queries = with_unit_last_stride(q), keys = with_unit_last_stride(k), values = with_unit_last_stride(v);
  const AttentionResult kept{with_unit_last_stride(result.y), result.log_sum_exp.contiguous()};
  const Tensor gradient = with_unit_last_stride(dy), scratch = scratch_for(q, k, mask, true);
  run_kernel(
      "attention_backward", {queries, keys, values, kept.y, kept.log_sum_exp, gradient, dq, dk, dv, mask.query_lengths, mask.key_lengths},
      cost_of(q, k, mask.causal, 10, 4),
      [&](auto& context) { kernels::attention_backward(context, queries, keys, values, kept, gradient, mask, dq, dk, dv, scratch); });
}

}  // namespace sluice
