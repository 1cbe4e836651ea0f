#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/choices.h"
#include "core/cuda/cuda.h"
#include "core/cuda/cudnn_agreement.h"
#include "core/cuda/cudnn_kind.h"

namespace sluice::cudnn {

/// The choice of Sluice's own kernels.
inline constexpr const char* kOwn = "own kernels";

/// What the library proposes for a kind of call: as choices, "proposal 0, engine 12", and as plans, each made when it is first asked for.
class Proposals {
 public:
  Proposals(const Library& library, const Descriptor& gpu, const Kind& kind) : library_(library), gpu_(gpu), kind_(kind) {}

  /// Those that the library expects to be the fastest first.
  std::vector<std::string> choices();
  /// Null for what the library does not propose, refuses after all, or needs more memory for than there is.
  const Plan* plan(const std::string& choice);
  std::optional<Plan> take(const std::string& choice);

 private:
  std::optional<Plan> make(const std::string& choice);

  const Library& library_;
  const Descriptor& gpu_;
  const Kind& kind_;
  std::shared_ptr<const Graph> graph_;  ///< null until the library is asked
  std::vector<Proposal> all_;
  std::map<std::string, std::optional<Plan>> plans_;
};

/// One call of an op, which can be run again and again.
struct Trial {
  std::string text;  ///< for messages
  std::vector<Result> results;
  bool own_may_win;           ///< else any plan that agrees is taken
  std::function<void()> own;  ///< enqueues Sluice's kernels, which write the results
  std::function<void(const Plan&)> enqueue;
};

/// The own kernels and the proposals. One is right if it gives all the results of the own kernels and, run twice, the same bits; one that
/// deviates is left out with a warning, one that fails without. None where the own kernels' numbers tell nothing. The results hold
/// anything afterwards. What is given lives as long as the candidates.
/// Cost  20 calls of each; memory of the results' size on the host.
std::vector<Candidate> candidates_of(Proposals& proposals, Cuda& cuda, const Trial& trial);

/// A line on standard error.
void warn(const std::string& text);

}  // namespace sluice::cudnn
