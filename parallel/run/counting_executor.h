#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/run/batch_shape.h"
#include "parallel/run/executor.h"

namespace sluice::parallel {

/// Runs programs on meta devices that stand for others: the one way in which bytes are counted. A program may run on the others once it is
/// counted here and nothing refuses it.
/// Threads  one caller.
/// Errors   UsageError for an input that the shape does not have; NoElements for a module that looks at elements; what nodes throw.
class CountingExecutor {
 public:
  /// What is counted for, and on what clocks.
  struct Devices {
    std::vector<DevicePtr> counted;     ///< whose names, kinds, threads and budgets count
    std::vector<DeviceSpeed> speeds{};  ///< by device; empty: those of a meta device that was given none
    std::vector<int64_t> beside{};      ///< by device: bytes of it that are never the programs'; empty: none
  };
  /// Graph, topology and optimizer live as long as this. Programs of training need an optimizer.
  CountingExecutor(const layers::Graph& graph, const Layout& layout, const Devices& devices, const StageOptions& options);

  /// Runs a verified program, and writes into its actions what they take.
  /// `keeps_output`  of an evaluation: what the graph's output node makes stays on its device until the end.
  /// `sequences`  of a run that continues some: all groups that the devices hold are there then.
  RunResult count(Program& program, const BatchShape& shape, bool keeps_output = false,
                  const std::optional<SequencesShape>& sequences = std::nullopt);

  /// By device: the most bytes that it holds while its stages are made or a counted program runs, those beside included.
  std::vector<int64_t> peaks(const Program& program) const;
  /// By device: what its stages hold since the last run: weights, and key/value caches.
  std::vector<int64_t> kept() const;

  /// Why the budgets that the devices have now do not hold a counted program: what the first allocation beyond one says, and which device
  /// needs and lacks how many bytes. Empty when they do.
  /// Cost  one more run of a program that they do not hold.
  std::string refusal(const Program& program, const BatchShape& shape, bool keeps_output = false,
                      const std::optional<SequencesShape>& sequences = std::nullopt) const;

  const Executor& executor() const { return *executor_; }

 private:
  CountingExecutor(const layers::Graph& graph, const Layout& layout, const Devices& devices, const StageOptions& options,
                   bool with_budgets);
  std::vector<int64_t> budgets() const;
  RunResult run(const Program& program, const BatchShape& shape, bool keeps_output, const Sequences* sequences);

  const layers::Graph& graph_;
  const Devices devices_;
  const StageOptions options_;
  std::unique_ptr<Executor> executor_;
  std::vector<int64_t> first_peaks_;  ///< by device: while its stages were made
};

}  // namespace sluice::parallel
