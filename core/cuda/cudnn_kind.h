#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/cuda/cudnn_agreement.h"
#include "core/cuda/cudnn_graph.h"

namespace sluice::cudnn {

struct ConvolutionKind {
  Convolution convolution;
  bool allow_tf32;
  auto operator<=>(const ConvolutionKind&) const = default;
};

/// All on which a choice depends, besides the GPU and the versions.
using Kind = std::variant<ConvolutionKind, Attention>;

/// The kind for messages and the cache.
std::string text_of(const Kind& kind);
std::shared_ptr<const Graph> graph_of(const Library& library, const Kind& kind);
bool may_use_tensor_cores(const Kind& kind);
/// What a plan may need.
int64_t workspace_bytes_for(const Kind& kind);
/// The part of a call that the library computes at once, and the addresses of each part.
Kind slice_of(const Kind& kind);
void for_slices(const Kind& kind, std::span<void* const> addresses, const std::function<void(std::span<void* const>)>& body);
/// What a call writes, from the addresses of the graph's tensors.
std::vector<Result> results_of(const Kind& kind, std::span<void* const> addresses);

}  // namespace sluice::cudnn
