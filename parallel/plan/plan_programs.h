#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/plan/plan.h"
#include "parallel/run/counting_executor.h"

namespace sluice::parallel {

/// What all stages of a plan have in common; the seed is open, and weights are rounded to the nearest.
StageOptions stage_options(const Plan& plan, const Optimizer& optimizer);

/// That of training. `placement`: device_of_stage of the plan; the layout refers to all of these.
Layout layout_of(const Topology& topology, const Plan& plan, const std::vector<int>& placement);

/// The programs of a plan: each is lowered, verified, counted, and held against the budgets of the plan's devices before anyone gets it.
/// A searched order is searched for every number of micro-batches, within the budgets; that of several replicas whatever the budgets.
/// Of several ranks the root makes them for all, which ask for the same ones in one order, and change budgets alike.
/// Threads  one caller.
/// Errors   UsageError with the reason why `verify` refuses a program; what counting throws.
class PlanPrograms {
 public:
  /// What a program is to do.
  struct Use {
    bool training = true;
    int micro_batches = 1;
    bool keeps_output = false;  ///< of an evaluation
    BatchShape shape{};
    std::optional<SequencesShape> sequences{};  ///< of an evaluation that continues some
    bool operator==(const Use&) const = default;
  };

  /// Graph, topology, plan and optimizer live as long as this. `speeds`  as in CountingExecutor::Devices. `group`  null for one process.
  PlanPrograms(const layers::Graph& graph, const Topology& topology, const Plan& plan, const StageOptions& options,
               std::vector<DeviceSpeed> speeds = {}, Group* group = nullptr);

  /// A step; 0 micro-batches are the plan's, of at least one sample.
  Use step(BatchShape shape, int micro_batches = 0) const;
  /// An evaluation, in the plan's micro-batches of at least one sample.
  Use evaluation(BatchShape shape, bool keeps_output) const;

  /// The program to run. It is kept, so that asking again costs next to nothing, until a budget changes or many others were asked for. That
  /// of a graph with a module that looks at elements cannot be counted: there the devices' allocators keep to the budgets.
  /// Errors  OutOfMemory with the words of CountingExecutor::refusal.
  const Program& get(const Use& use);

  /// A program whatever the budgets, and what its counting run gave.
  struct Counted {
    Program program;
    RunResult run;
  };
  Counted count(const Use& use);

  /// That counts them.
  CountingExecutor& counter();
  /// By device of the plan: bytes that others hold there. All programs are counted with them from now on.
  void hold_beside(std::vector<int64_t> bytes);

 private:
  int micro_batches_of(const BatchShape& shape) const;
  struct Kept {
    Use use;
    std::vector<int64_t> budgets;  ///< that it was held against
    Program program;
  };
  std::vector<int64_t> budgets() const;
  /// What the order is searched with when the plan's is of another number of micro-batches; else null.
  const SearchedSchedule* searched(const Use& use) const;
  Program lowered(const Schedule& schedule) const;
  Schedule schedule_for(const Use& use) const;
  Counted count(Program program, const Use& use);
  Counted count_searched(const SearchedSchedule& searched, const Use& use);
  std::vector<double> tighter_caps(const FoundSchedule& found, const Program& program);
  Program within_budgets(const Use& use);
  Program made_by_root(const Use& use);

  const layers::Graph& graph_;
  const Topology& topology_;
  const Plan& plan_;
  const StageOptions options_;
  const std::vector<DeviceSpeed> speeds_;
  Group* const group_;                         ///< null for one process
  std::vector<int64_t> beside_;                ///< by device; empty: nothing
  std::unique_ptr<CountingExecutor> counter_;  ///< from its first use on
  std::deque<Kept> kept_;                      ///< the latest first
};

}  // namespace sluice::parallel
