#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/cuda.h"
#include "core/cuda/cudnn_agreement.h"
#include "core/cuda/cudnn_graph.h"

namespace sluice::cudnn {

/// A plan and where it stood among the library's proposals.
struct Candidate {
  int64_t place, engine;
  Plan plan;
};

/// One call of an op, which can be run again and again.
struct Trial {
  std::string text;  ///< for messages
  std::vector<Result> results;
  bool own_may_win;           ///< else any plan that agrees is taken
  std::function<void()> own;  ///< enqueues Sluice's kernels, which write the results
  std::function<void(const Plan&)> enqueue;
};

struct Tuned {
  std::optional<Candidate> best;  ///< nothing: the own kernels
  bool is_certain = true;         ///< false where nothing could be compared, because the numbers tell nothing
};

/// The fastest of the candidates that is faster than the own kernels, gives all their results and, run twice, the same bits; timed on the
/// device's stream. One that deviates is left out with a warning, one that fails without. The results hold anything afterwards.
/// Cost  20 calls of each; memory of the results' size on the host.
Tuned fastest_of(std::vector<Candidate> candidates, Cuda& cuda, const Trial& trial);

/// A line on standard error.
void warn(const std::string& text);

}  // namespace sluice::cudnn
