#pragma once
#include <map>
#include <memory>
#include <string>

#include "core/batch.h"
#include "layers/graph.h"
#include "parallel/run/executor.h"

namespace sluice::testing {

/// What a step of training leaves that must not depend on the program.
struct StepAnswer {
  double loss = 0, gradient_norm = 0;
  std::map<int, std::string> weights;  ///< by parameter, a hash of it after the step; of those that are here
  bool operator==(const StepAnswer&) const = default;
};

/// An executor for one program, which may be any: nothing verifies it. Devices are "cpu" or "meta"; those of one rank when there is a group,
/// which lives longer.
class ProgramRun {
 public:
  ProgramRun(const layers::Graph& graph, parallel::Program program, const std::string& kind, double timeout_seconds,
             parallel::Group* group = nullptr);

  StepAnswer step(const Batch& batch);
  parallel::Executor& executor() { return *executor_; }

 private:
  const layers::Graph& graph_;
  parallel::Program program_;
  parallel::Topology topology_;
  std::unique_ptr<parallel::Executor> executor_;
};

}  // namespace sluice::testing
