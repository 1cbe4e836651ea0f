#pragma once
#include "core/cuda/cudnn.h"
#include "core/cuda/cudnn_graph.h"

namespace sluice::cudnn {

/// Attention as the graph of operations whose pattern the library knows. Addresses in the order of AttentionOperands: q, k, v, y,
/// log_sum_exp forward; all of them backward.
///
/// Forward writes log_sum_exp = max + log(sum), the natural logarithm. Backward has dq as the product's direct result, as frontends do when
/// they are asked for the same bits every time; by default they keep it as sums in f32, and the library does not note what that costs. The
/// direct one keeps [samples, heads, queries, keys] numbers of bf16 in the workspace.
/// Dtypes  bf16, log_sum_exp and row_sums f32.
std::shared_ptr<const Graph> graph_of(const Library& library, const Attention& of);

}  // namespace sluice::cudnn
