#pragma once
#include <compare>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "core/ops/running_statistics.h"
#include "core/random.h"

namespace sluice::layers {

/// How a parameter starts: a function of (seed, parameter name), whatever the partition.
struct Initializer {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double standard_deviation = 0;  ///< of `normal`

  static Initializer zeros() { return {Kind::zeros, 0}; }
  static Initializer ones() { return {Kind::ones, 0}; }
  static Initializer normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
};

struct ParameterSpec {
  std::string name;  ///< within the module: "weight"
  Shape shape;
  Initializer initializer;
  bool decay = true;  ///< weight decay applies (matrices); not to biases and norms
};

/// Running statistics of a batch normalization: a state of the model, in f32, that no gradient changes. The mean starts at 0, the variance
/// at 1; each mini-batch changes them once (update_running_statistics).
struct StatisticsSpec {
  std::string name;  ///< within the module: empty for its only ones. The states are "name.running_mean" and "name.running_variance"
  int64_t channels;
  double momentum;
};
struct RunningStatistics {
  Tensor mean, variance;  ///< [channels]
};

/// A table of positions that a module reads: sinusoids() of [length, width] from position 0. It is made once a device (Tables), for all
/// modules there that ask for the same.
struct TableSpec {
  int64_t length, width;
  bool as_activations = false;  ///< in the dtype of activations; else in that of their arithmetic: f32 for bf16
  auto operator<=>(const TableSpec&) const = default;
};

/// Keys and values of the tokens seen so far, for generation. One for each node that attends.
struct KeyValueCache {
  int64_t capacity = 0;     ///< tokens
  int64_t length = 0;       ///< tokens held
  Tensor keys{}, values{};  ///< [B, capacity, heads, head width]; made at the first use
};

/// What a loss multiplies its sum by: 1 / total weight of the mini-batch. Reads as that number, and notes that it was read, so that a loss
/// that forgets it is found at its first step. Copies share the note.
class LossScale {
 public:
  LossScale(double value) : value_(value) {}  // NOLINT: a plain number is a scale that nobody watches
  /// `is_read`  is set once the scale is read; it outlives all copies.
  LossScale(double value, bool& is_read) : value_(value), is_read_(&is_read) {}
  operator double() const {  // NOLINT: modules compute with it
    if (is_read_) *is_read_ = true;
    return value_;
  }

 private:
  double value_;
  bool* is_read_ = nullptr;
};

/// All that a module gets to compute one micro-batch. Modules hold no tensors, so one graph serves every device and micro-batch.
struct Call {
  std::vector<Var> inputs;
  std::vector<Var> parameters;                  ///< in the order of Module::parameters()
  std::vector<Tensor> tables{};                 ///< in the order of Module::tables()
  std::vector<RunningStatistics> statistics{};  ///< in the order of Module::statistics(), for evaluation
  /// Where the forward of a training step leaves what it saw of its micro-batch, in the same order. Empty in evaluation, and in
  /// recomputation, so that nothing counts twice.
  std::span<BatchMoments> observed{};
  RandomStream random;  ///< this node's stream: same mask for the same (seed, step, node, sample, element)
  bool training = true;
  LossScale loss_scale = 1;        ///< losses multiply by it
  int64_t first_position = 0;      ///< position of the first token (generation)
  KeyValueCache* cache = nullptr;  ///< set in generation
};

/// Rows first .. first+count-1 of the call's only table.
/// Errors  UsageError naming the module: when whoever made the call gave no table, or for more rows than it has.
Tensor rows_of_table(const char* module, const Call& call, int64_t first, int64_t count);

/// "outer.inner", or the one that is not empty.
std::string joined_name(const std::string& outer, const std::string& inner);

/// A layer: names its parameters and computes its output. Immutable.
/// Threads  any, at the same time.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<StatisticsSpec> statistics() const { return {}; }
  virtual std::vector<TableSpec> tables() const { return {}; }
  virtual Var forward(const Call& call) const = 0;
  /// Of a loss: the summed weight of a batch's targets; the mini-batch's loss is the weighted sum over this. Forward returns the
  /// micro-batch's part of it: its weighted sum, not its mean, times Call::loss_scale. `inputs` are the
  /// graph inputs that the loss node reads, undefined for other inputs. Errors  UsageError for a module that is no loss.
  virtual double loss_weight(const std::vector<Tensor>& inputs) const;
};
using ModulePtr = std::shared_ptr<const Module>;

/// A module made of named children; parameters are "child.parameter", or "parameter" for a child with an empty name. So are statistics.
class Composite : public Module {
 public:
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StatisticsSpec> statistics() const override;
  std::vector<TableSpec> tables() const override;

 protected:
  /// Returns the child's number.
  template <class M>
  int add(std::string name, M child) {
    return add_child(std::move(name), std::make_shared<const M>(std::move(child)));
  }
  /// Runs a child on inputs, with its share of the call's parameters, tables and statistics and a random stream of its own.
  Var run(const Call& call, int child, std::vector<Var> inputs) const;

 private:
  struct Child {
    std::string name;
    ModulePtr module;
    size_t first_parameter, parameter_count, first_table, table_count, first_statistics, statistics_count;
  };
  int add_child(std::string name, ModulePtr module);
  std::vector<Child> children_;
};

/// Children one after another: the first gets the inputs, each later one the output before it.
///   Sequence().then("norm", LayerNorm(64)).then("linear", Linear(64, 256))
class Sequence : public Composite {
 public:
  template <class M>
  Sequence then(std::string name, M child) && {
    count_ = add(std::move(name), std::move(child)) + 1;
    return std::move(*this);
  }
  /// Errors  UsageError for an empty sequence.
  Var forward(const Call& call) const override;

 private:
  int count_ = 0;
};

}  // namespace sluice::layers
