#pragma once
#include "core/cuda/cudnn.h"
#include "core/cuda/cudnn_graph.h"

namespace sluice::cudnn {

/// The convolution as the library's operation, with padding before and behind that may differ. Addresses in the order first, second,
/// result; each must be a multiple of kAlignment.
/// Dtypes  f32, bf16.
std::shared_ptr<const Graph> graph_of(const Library& library, const Convolution& of);

}  // namespace sluice::cudnn
