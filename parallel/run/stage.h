#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autograd/backward.h"
#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "layers/tables.h"
#include "layers/value_type.h"
#include "parallel/program/dataflow.h"
#include "parallel/run/batch_shape.h"
#include "parallel/run/sequences.h"
#include "parallel/run/shards.h"
#include "parallel/run/statistics.h"
#include "parallel/run/wish.h"

namespace sluice::parallel {

/// What every stage of a run needs to know of the mini-batch. Lives as long as the run.
struct RunContext {
  const Batch* batch = nullptr;
  BatchShape shape;                   ///< of the batch: shape_of() it
  std::vector<int64_t> first_sample;  ///< by micro-batch, and one more entry: the number of samples
  bool training = true;
  std::vector<double> loss_weights;  ///< Module::loss_weights() of the mini-batch, where the loss is computed
  double loss_scale = 1;             ///< 1 / loss_weight(), where the loss is computed; 1 in evaluation
  uint32_t step = 0;                 ///< training steps done before this one: the random stream
  bool keeps_output = false;         ///< of the graph's output node, until the run ends
  bool cuda_graphs = false;          ///< compute actions are launched as CUDA graphs
  bool is_watched = false;           ///< the first node that makes a number which is not finite throws DivergenceError, naming itself
  std::function<bool()> stop;        ///< asked before each node's forward, from any device's thread: true ends the run with StoppedError
  std::function<Wish()> wish;        ///< asked at the end of the run

  const Sequences* sequences =
      nullptr;  ///< of a run that continues some: the output is that of each row's last token. Lives as long as the run

  int micro_batches() const { return static_cast<int>(first_sample.size()) - 1; }
  /// Of the mini-batch's targets, where the loss is computed; 0 elsewhere.
  double loss_weight() const { return loss_weights.empty() ? 0 : loss_weights.front(); }
};

/// Cuts `samples` into `micro_batches` parts that differ by at most one sample, the larger first; returns the first sample of each and the
/// end.
std::vector<int64_t> micro_batch_bounds(int64_t samples, int micro_batches);

/// What all stages of a run have in common.
struct StageOptions {
  uint64_t seed = 0;                     ///< of parameters, random masks and stochastic rounding
  const Optimizer* optimizer = nullptr;  ///< whose states owners have; lives as long as these options are used. Null: none
  Precision precision = Precision::f32;
  bool stochastic_rounding = false;  ///< of the bf16 working copies of weights; else to the nearest
  bool averages = false;             ///< keeps exponential moving averages of weights and running statistics
  bool inference = false;            ///< keeps working copies alone, which set_weights() fills
};

/// One contiguous run of a graph's nodes on one device: its parameters, and what its micro-batches keep between actions.
///
/// Each node is recorded as a graph of its own, from its input values to its output, so that nodes can be freed, recomputed and
/// traversed one by one. What it records, adds up, sends and receives is what the Dataflow says. Where a module leaves out a gradient that
/// the topology expects, nothing is added and the message is an undefined tensor.
/// Threads  one: the device's worker.
class Stage {
 public:
  /// `flow`  of training, of `layout`. `index`  through the replicas. Graph, flow and what the layout refers to live as long as the stage.
  /// `tables` are those of the device, which its stages share.
  Stage(const layers::Graph& graph, const Layout& layout, const Dataflow& flow, int index, DevicePtr device, layers::Tables& tables,
        StageOptions options);

  int index() const { return index_; }
  const DevicePtr& device() const { return device_; }

  /// @name Actions of the program
  /// @{
  void forward(const RunContext& run, int micro_batch);
  void recompute(const RunContext& run, int micro_batch);
  void backward(int micro_batch);
  void input_gradient(int micro_batch);
  void weight_gradient(int micro_batch);
  void shard_gradients();
  void fold_shards();
  void reduce_tied(int tied);
  void free(const Buffer& buffer);
  /// What a Send of this stage takes, and where a Recv of this stage puts it.
  Tensor outgoing(const Transfer& transfer, int micro_batch) const;
  void incoming(const Transfer& transfer, int micro_batch, Tensor tensor);
  /// What a Recv at the end of a step gets; nothing where that is not known.
  std::optional<layers::ValueType> expected(const Transfer& transfer) const;
  /// @}

  struct Parameter {
    int index = -1;                     ///< into Graph::parameters()
    bool owned = false;                 ///< this stage runs the optimizer on it, or on a part of it
    ElementRange range{};               ///< on which elements, when owned
    ElementRange shard{};               ///< of which elements this replica adds up the gradients; none where another stage does
    std::vector<int> uses{};            ///< nodes of this stage that make gradients of it, ascending
    Tensor master{};                    ///< f32: what the optimizer changes and checkpoints keep, when owned; of a part a list
    Tensor working{};                   ///< what forward and backward read: the master is in its memory, or it is a copy
    std::vector<Tensor> states{};       ///< of the optimizer, when owned
    Tensor average{};                   ///< exponential moving average of the master, when owned and asked for
    std::map<int, Tensor> gradients{};  ///< by using node, in f32; complete after the last backward. Of the shard after fold_shards
    std::map<int64_t, Tensor> sums{};   ///< by first element: of the other replicas' shards, as they added them up
  };
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  StageStatistics& statistics() { return statistics_; }
  /// The gradient that the optimizer sees, after reduce_tied: of the parameter's range. Errors  UsageError when no backward ran.
  Tensor gradient(const Parameter& parameter) const;
  /// What this replica adds up, of which it makes a part of the norm.
  const Shard& shard() const { return shards_[replica_]; }
  /// The gradient of a piece of it. Errors  as gradient().
  Tensor gradient(const ShardPiece& piece) const;
  /// What the optimizer's step number `step` (from 1) has to do here: the owned parameters. Errors  as gradient().
  std::vector<OptimizerSlot> slots(int64_t step) const;
  /// The owned parameters' moving averages, with what they follow; empty when there are none.
  std::vector<MovingAverage> averages() const;
  /// Makes the working copies of owned parameters from their masters, with the bits that step number `step` gave (0 = the start).
  /// Forward then reads trained weights.
  void write_working(int64_t step);
  /// Makes forward read the moving averages of owned parameters and running statistics: in place where a parameter has no working copy,
  /// else rounded to the nearest into that copy, so that it takes no memory. Until write_working().
  void show_averages();
  /// What forward reads of a parameter.
  const Tensor& shown(const Parameter& parameter) const;
  void drop_gradients();
  /// Brings what forward reads up to the masters that were just stepped, where it is an f32 copy of them.
  void copy_masters();

  /// Loss values of the micro-batches that ran, by micro-batch; only the stage with the loss node has any.
  const std::map<int, Tensor>& losses() const { return losses_; }
  /// What the graph's output node made of the micro-batches, when the run keeps it; only the stage with that node has any.
  const std::map<int, std::map<int, Tensor>>& outputs() const { return outputs_; }
  /// Frees everything but parameters, running statistics, optimizer states and sequences: after a step, or after a failure.
  void reset();
  /// Frees what is kept of one group of sequences, or of all.
  void end_sequences(int group) { sequences_.erase(group); }
  void end_sequences() { sequences_.clear(); }
  /// Of a stage for inference: the parameters by full name, and running means and variances. Further ones do not matter.
  /// Errors  UsageError for one that is missing or has another shape.
  void set_weights(const std::map<std::string, Tensor>& weights);

 private:
  struct Tape {
    NodePtr root;                 ///< null when no leaf lies upstream
    std::vector<NodePtr> inputs;  ///< leaves, by input of the graph's node; null for what wants no gradient
    std::vector<NodePtr> parameters;
  };
  /// What is left of a tape between I and W.
  struct Deferred {
    Backward backward;
    std::vector<NodePtr> parameters;
  };
  struct MicroBatch {
    std::map<int, Tensor> received;                       ///< by value
    std::map<int, Tensor> kept;                           ///< by value: made here or loaded, wanted by recompute
    std::map<int, Tensor> to_send;                        ///< by value
    std::map<int, Tape> tapes;                            ///< by node
    std::map<std::pair<int, int>, Tensor> gradients;      ///< by (value, consumer): received
    std::map<std::pair<int, int>, Tensor> contributions;  ///< by (value, consumer): to send
    std::map<int, Deferred> deferred;                     ///< by node: weight gradients still to come
  };
  enum class Pass { all, inputs };
  /// What is kept of a group of sequences from run to run.
  struct Group {
    std::map<int, layers::KeyValueCache> caches;  ///< by node
    std::map<int, Tensor> inputs;                 ///< by value: the graph's inputs but the tokens
  };

  Parameter make_parameter(int index) const;
  const Parameter& tied(int number) const;
  void write_working(const Parameter& parameter, const Tensor& master, const ElementRange& range, int64_t step) const;
  std::optional<RandomStream> rounding(const Parameter& parameter, int64_t step) const;
  void run_nodes(const RunContext& run, int micro_batch, bool again);
  Tensor run_node(const RunContext& run, int micro_batch, int node, std::map<int, Tensor>& live, bool again);
  Tensor load(const RunContext& run, int micro_batch, int value);
  void continue_sequences(const RunContext& run, int micro_batch);
  Group* group_of(const RunContext& run, int micro_batch);
  void run_backward(int micro_batch, Pass pass);
  std::map<int, Tensor> received_gradients(MicroBatch& state, int micro_batch) const;
  void begin_sums(int node, Backward& backward, const Tape& tape, std::map<int, Tensor>& sums) const;
  void distribute(MicroBatch& state, int node, Backward& backward, const Tape& tape, std::map<int, Tensor>& sums);
  void offer_accumulators(int node, const std::vector<NodePtr>& leaves);
  void accumulate(int node, Backward& backward, const std::vector<NodePtr>& leaves);
  void watch(const char* what, const Tensor& made) const;
  bool is_here(int node) const { return node >= first_ && node < end_; }

  /// Elements of a parameter in the one tensor in which a shard is sent.
  struct PackedPiece {
    size_t position;  ///< in parameters_
    int node;         ///< of gradients: the using node
    ElementRange elements;
    int64_t offset;
    Tensor in(const Tensor& packed) const { return packed.slice(0, offset, offset + elements.count); }
  };
  struct Packing {
    std::vector<PackedPiece> pieces;
    int64_t elements() const { return pieces.empty() ? 0 : pieces.back().offset + pieces.back().elements.count; }
  };
  Packing packing(const Shard& shard, bool by_use) const;
  void make_packings();
  Tensor room(const Packing& packing, DType dtype) const;
  std::vector<int> uses_here(int parameter) const;
  void end_block(int micro_batch);
  Tensor pack_weights() const;
  Tensor pack_sums() const;
  void unpack_weights(int replica, const Tensor& packed);
  void unpack_sums(int replica, const Tensor& packed);
  ElementRange tied_elements(const Transfer& transfer) const;
  Tensor tied_part(const Transfer& transfer) const;
  Tensor use_of_all_replicas(int tied, int node);
  size_t position_of(int parameter) const { return positions_.at(parameter); }
  ElementRange whole(int parameter) const { return {0, graph_.parameters()[parameter].spec.shape.elements()}; }
  int replica_of(int stage) const { return stage / stages_; }

  const layers::Graph& graph_;
  const Topology& topology_;
  const Dataflow& flow_;
  const Replication replication_;
  int stages_;  ///< of one replica
  int index_, replica_, first_, end_;
  std::map<int, size_t> positions_;                    ///< in parameters_, by Graph's
  std::vector<Packing> gradient_packings_;             ///< by replica: of what that one adds up
  std::vector<Packing> weight_packings_;               ///< by replica: of what that one has added up
  std::vector<Shard> shards_;                          ///< by replica: of this stage's parameters
  std::vector<int> tied_parameters_;                   ///< by tied parameter: into Graph::parameters()
  std::vector<std::vector<ElementRange>> tied_parts_;  ///< by tied parameter and replica: what that one adds up
  DevicePtr device_;
  StageOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<int>> node_parameters_;  ///< by node of this stage: positions in parameters_
  std::vector<std::vector<Tensor>> node_tables_;   ///< by node of this stage
  StageStatistics statistics_;
  bool shows_averages_ = false;
  std::vector<int> last_use_, last_recompute_use_;  ///< by value: last node here (of those recomputed) that reads it, or -1
  std::map<int, MicroBatch> micro_batches_;
  std::map<std::tuple<int, int, int>, Tensor> tied_received_;  ///< by (tied, node, replica)
  std::map<std::pair<int, int>, Tensor> packed_;               ///< shards by (stage that made it, stage that adds it up)
  std::map<std::pair<size_t, int>, TreeSum<Tensor>> blocks_;   ///< by (position in parameters_, node): sums of fold blocks
  std::map<int, Tensor> losses_;
  std::map<int, std::map<int, Tensor>> outputs_;  ///< by node, by micro-batch
  std::map<int, Group> sequences_;                ///< by group
  int loss_node_;                                 ///< -1 for a graph without a loss
  const RunContext* run_ = nullptr;               ///< while there is one
};

}  // namespace sluice::parallel
