#pragma once
#include <memory>
#include <vector>

#include "core/moment.h"
#include "parallel/profile.h"
#include "parallel/stage.h"

namespace sluice::parallel {

/// A graph on one device, each node as a stage of its own or all as one, with the time of every action.
/// Threads  one.
class NodeRun {
 public:
  using Part = double NodeTimes::*;
  struct Sample {
    int node;  ///< -1: all
    Part part;
    double seconds;
  };
  enum class Cut { nodes, whole };
  /// The context must outlive the run.
  NodeRun(const layers::Graph& graph, const RunContext& context, DevicePtr device, const StageOptions& options, Cut cut = Cut::nodes);

  /// @name Actions of a training step, over all stages
  /// @{
  void forward(int micro_batch);
  void recompute(int micro_batch);
  void backward(int micro_batch);
  void input_gradient(int micro_batch);
  void weight_gradient(int micro_batch);
  /// The gradients' norm, the optimizer and the running statistics, at once for all; their time is that of node -1.
  void step(const Optimizer& optimizer);
  /// @}

  /// Of all actions since the last call. Waits for the device.
  std::vector<Sample> take_samples();

 private:
  struct Span {
    Sample sample;
    Moment begin, end;  ///< of devices whose work is asynchronous
  };
  template <class Work>
  void timed(int node, Part part, const Work& work);
  void backwards(int micro_batch, Part part, void (Stage::*action)(int));
  int stage_count() const { return static_cast<int>(stages_.size()); }
  bool is_whole() const { return partition_.stage_count() == 1; }
  int node_of(int stage) const { return is_whole() ? -1 : stage; }
  void receive_activations(int node, int micro_batch);
  void free_inputs(int node, int micro_batch);
  void receive_gradients(int node, int micro_batch);
  bool is_last_use(int value, int node) const { return last_use_[value] == node; }

  const layers::Graph& graph_;
  const RunContext& context_;
  Topology topology_;
  Partition partition_;
  DevicePtr device_;
  std::vector<bool> rematerialize_;
  std::vector<int> last_use_;                ///< by value: its last consumer, or -1
  std::vector<std::vector<int>> consumers_;  ///< by value, ascending; each once
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Span> spans_;
};

}  // namespace sluice::parallel
