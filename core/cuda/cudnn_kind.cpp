#include "core/cuda/cudnn_kind.h"

#include "core/cuda/cudnn_attention.h"
#include "core/cuda/cudnn_convolution.h"

namespace sluice::cudnn {

namespace {

using Pass = onednn::ConvolutionPass;

std::string text(const ConvolutionKind& kind) {
  constexpr const char* kPasses[] = {"forward", "input gradient", "weight gradient"};
  const Convolution& c = kind.convolution;
  return join(kPasses[static_cast<int>(c.pass)], " ", name_of(c.dtype), kind.allow_tf32 ? " as tf32" : "", " [", c.images, ", ", c.in_h,
              ", ", c.in_w, ", ", c.channels, "] [", c.outputs, ", ", c.size_h, ", ", c.size_w, "] to [", c.out_h, ", ", c.out_w,
              "], strides ", c.stride_h, " ", c.stride_w, ", before ", c.before_h, " ", c.before_w);
}

std::string text(const Attention& a) {
  std::string all = join(a.causal ? "causal " : "", "attention ", a.backward ? "backward" : "forward", " bf16 [", a.samples, ", ",
                         a.queries, ", ", a.heads, ", ", a.width, "] [", a.keys, ", ", a.key_heads, "], strides");
  for (const HeadStrides& at : {a.q, a.k, a.v, a.y}) all += join(" ", at.sample, "/", at.token, "/", at.head);
  if (a.backward)
    for (const HeadStrides& at : {a.dy, a.dq, a.dk, a.dv}) all += join(" ", at.sample, "/", at.token, "/", at.head);
  if (a.slices.samples != a.samples || a.slices.heads != a.heads)
    all += join(", in slices of ", a.slices.samples, " samples and ", a.slices.heads, " heads");
  return all;
}

int64_t result_elements(const Convolution& c) {
  if (c.pass == Pass::forward) return c.images * c.out_h * c.out_w * c.outputs;
  if (c.pass == Pass::input_gradient) return c.images * c.in_h * c.in_w * c.channels;
  return c.outputs * c.size_h * c.size_w * c.channels;
}

DType result_dtype(const Convolution& c) { return c.pass == Pass::weight_gradient ? compute_dtype(c.dtype) : c.dtype; }

/// How far results of two right algorithms may lie apart: roundings of the result's dtype or the factors', and sums of some thousand terms
/// in another order.
double tolerance_of(const ConvolutionKind& kind) {
  if (result_dtype(kind.convolution) == DType::bf16) return 1e-2;
  return kind.allow_tf32 ? 5e-3 : 1e-4;
}

/// As that; gradients of attention are sums of products that were rounded to bf16, and are rounded again.
constexpr double kAttentionTolerance = 1e-2, kLogSumExpTolerance = 1e-4, kAttentionGradientTolerance = 2e-2;

std::vector<Result> results(const ConvolutionKind& kind, std::span<void* const> addresses) {
  const int64_t elements = result_elements(kind.convolution);
  return {{addresses[2], {1, 1, 1, elements}, {elements, elements, elements, 1}, result_dtype(kind.convolution), tolerance_of(kind)}};
}

std::vector<Result> results(const Attention& a, std::span<void* const> addresses) {
  const auto heads = [&](size_t address, int64_t count, int64_t tokens, const HeadStrides& at, double tolerance) {
    return Result{addresses[address], {a.samples, count, tokens, a.width}, {at.sample, at.head, at.token, 1}, DType::bf16, tolerance};
  };
  if (a.backward)
    return {heads(7, a.heads, a.queries, a.dq, kAttentionGradientTolerance),
            heads(8, a.key_heads, a.keys, a.dk, kAttentionGradientTolerance),
            heads(9, a.key_heads, a.keys, a.dv, kAttentionGradientTolerance)};
  const int64_t rows = a.samples * a.heads * a.queries;
  return {heads(3, a.heads, a.queries, a.y, kAttentionTolerance),
          {addresses[4], {1, 1, 1, rows}, {rows, rows, rows, 1}, DType::f32, kLogSumExpTolerance}};
}

ConvolutionKind slice(const ConvolutionKind& kind) { return kind; }

Attention slice(Attention a) {
  if (a.slices.heads < a.heads) a.key_heads = a.slices.heads;
  a.samples = a.slices.samples;
  a.heads = a.slices.heads;
  return a;
}

using Addresses = std::span<void* const>;

void each_slice(const ConvolutionKind&, Addresses addresses, const std::function<void(Addresses)>& body) { body(addresses); }

/// In the order of the graph's tensors: bf16 but for the numbers of rows.
void each_slice(const Attention& a, Addresses addresses, const std::function<void(Addresses)>& body) {
  struct Operand {
    const HeadStrides* strides;
    int64_t element_bytes;
  };
  const HeadStrides rows{a.heads * a.queries, 1, a.queries};
  const std::vector<Operand> forward{{&a.q, 2}, {&a.k, 2}, {&a.v, 2}, {&a.y, 2}, {&rows, 4}},
      backward{{&a.q, 2}, {&a.k, 2}, {&a.v, 2}, {&a.y, 2}, {&a.dy, 2}, {&rows, 4}, {&rows, 4}, {&a.dq, 2}, {&a.dk, 2}, {&a.dv, 2}};
  const auto& operands = a.backward ? backward : forward;
  std::vector<void*> at(addresses.size());
  for (int64_t sample = 0; sample < a.samples; sample += a.slices.samples)
    for (int64_t head = 0; head < a.heads; head += a.slices.heads) {
      for (size_t i = 0; i < at.size(); ++i)
        at[i] = static_cast<char*>(addresses[i]) +
                (sample * operands[i].strides->sample + head * operands[i].strides->head) * operands[i].element_bytes;
      body(at);
    }
}

bool tensor_cores(const ConvolutionKind& kind) { return kind.convolution.dtype == DType::bf16 || kind.allow_tf32; }
bool tensor_cores(const Attention&) { return true; }

std::shared_ptr<const Graph> graph(const Library& library, const ConvolutionKind& kind) { return graph_of(library, kind.convolution); }
std::shared_ptr<const Graph> graph(const Library& library, const Attention& of) { return graph_of(library, of); }

}  // namespace

std::string text_of(const Kind& kind) {
  return std::visit([](const auto& of) { return text(of); }, kind);
}

std::shared_ptr<const Graph> graph_of(const Library& library, const Kind& kind) {
  return std::visit([&](const auto& of) { return graph(library, of); }, kind);
}

bool may_use_tensor_cores(const Kind& kind) {
  return std::visit([](const auto& of) { return tensor_cores(of); }, kind);
}

int64_t workspace_bytes_for(const Kind& kind) {
  const auto* attention = std::get_if<Attention>(&kind);
  return attention ? std::max(Cuda::kWorkspaceBytes, attention->slices.workspace_bytes) : Cuda::kWorkspaceBytes;
}

Kind slice_of(const Kind& kind) {
  return std::visit([](const auto& of) { return Kind(slice(of)); }, kind);
}

void for_slices(const Kind& kind, Addresses addresses, const std::function<void(Addresses)>& body) {
  std::visit([&](const auto& of) { each_slice(of, addresses, body); }, kind);
}

std::vector<Result> results_of(const Kind& kind, std::span<void* const> addresses) {
  return std::visit([&](const auto& of) { return results(of, addresses); }, kind);
}

}  // namespace sluice::cudnn
