#pragma once
#include <climits>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/call.h"
#include "layers/initializer.h"

namespace sluice::layers {

struct ParameterSpec {
  std::string name;  ///< within the module: "weight"
  Shape shape;
  Initializer initializer;
  bool decay = true;  ///< weight decay applies (matrices); not to biases and norms
  /// false: a buffer, part of the model and of its checkpoints as it starts, that training leaves alone, as if frozen (Graph::freeze)
  bool trained = true;
};

/// Running statistics of a batch normalization: a state of the model, in f32, that no gradient changes. The mean starts at 0, the variance
/// at 1; each mini-batch changes them once (update_running_statistics).
struct StatisticsSpec {
  std::string name;  ///< within the module: empty for its only ones. The states are "name.running_mean" and "name.running_variance"
  int64_t channels;
  double momentum;
};

/// A table of positions that a module reads: sinusoids() of [length, width] from position 0. It is made once a device (Tables), for all
/// modules there that ask for the same.
struct TableSpec {
  int64_t length, width;
  bool as_activations = false;  ///< in the dtype of activations; else in that of their arithmetic: f32 for bf16
  auto operator<=>(const TableSpec&) const = default;
};

/// Rows first .. first+count-1 of the call's only table.
/// Errors  UsageError naming the module: when whoever made the call gave no table, or for more rows than it has.
Tensor rows_of_table(const char* module, const Call& call, int64_t first, int64_t count);

/// "outer.inner", or the one that is not empty.
std::string joined_name(const std::string& outer, const std::string& inner);

/// x as a layer with this weight computes on it. The inputs of a graph keep the dtype that they were declared in, whatever the precision of
/// the training, and a layer that multiplies floats with weights takes them to the dtype of these first. Others are x itself.
Var in_working_dtype(const Var& x, const Var& weight);

/// How many inputs a module takes.
struct InputCount {
  static constexpr int kAny = INT_MAX;
  int least = 1, most = 1;
};

/// A layer: names its parameters and computes its output. Immutable.
/// Threads  any, at the same time.
class Module {
 public:
  virtual ~Module() = default;
  /// Graph::add and Composite::run refuse any other number. A module that takes others than one has to say so here.
  virtual InputCount input_count() const { return {}; }
  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<StatisticsSpec> statistics() const { return {}; }
  virtual std::vector<TableSpec> tables() const { return {}; }
  virtual Var forward(const Call& call) const = 0;
  /// Of a loss: the summed weight of a batch's targets; the mini-batch's loss is the weighted sum over this. Forward returns the
  /// micro-batch's part of it: its weighted sum, not its mean, times Call::loss_scale. `inputs` are the
  /// graph inputs that the loss node reads, of `samples` samples, undefined for other inputs. Errors  UsageError for a module that is no loss.
  virtual double loss_weight(const std::vector<Tensor>& inputs, int64_t samples) const;
  /// What forward() reads of the mini-batch as Call::loss_weights: loss_weight(), then those of the parts of a sum of losses.
  virtual std::vector<double> loss_weights(const std::vector<Tensor>& inputs, int64_t samples) const;
  /// What type_of() shows beside the type: the name of a Lambda, or those within a composite.
  virtual std::string label() const { return {}; }

 protected:
  /// Of the call's parameters the one of that name, as parameters() has it: "weight".
  /// Errors  UsageError naming the nearest, and for a call with other parameters than the module's.
  const Var& parameter(const Call& call, std::string_view name) const;
};
using ModulePtr = std::shared_ptr<const Module>;

/// The names of all tensors of a module: parameters, and means and variances of its statistics.
std::vector<std::string> tensor_names(const Module& module);
/// The name of a module's type, for messages: "sluice::layers::Linear", with its label: "sluice::layers::Lambda 'twice'".
std::string type_of(const Module& module);
bool takes(const Module& module, size_t inputs);
/// Errors  UsageError that begins with `subject` and names the module's type, and the number of inputs that it needs and was given.
[[noreturn]] void refuse_inputs(const std::string& subject, const Module& module, size_t given);

/// Errors  UsageError naming the module's type for no value, and for one on another device than that of its call.
void require_made_here(const Module& module, const Var& made, const Device& device);

/// A module made of named children; parameters are "child.parameter", or "parameter" for a child with an empty name. So are statistics.
/// Errors  UsageError when two children name one tensor.
class Composite : public Module {
 public:
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StatisticsSpec> statistics() const override;
  std::vector<TableSpec> tables() const override;
  std::string label() const override;

 protected:
  /// Returns the child's number.
  template <class M>
  int add(std::string name, M child) {
    return add_child(std::move(name), std::make_shared<const M>(std::move(child)));
  }
  /// Runs a child on inputs, with its share of the call's parameters, tables and statistics. Each run of a child within one forward has a random
  /// stream and a key/value cache of its own, and its statistics see all of them.
  /// Errors  UsageError for another number of inputs than the child takes.
  Var run(const Call& call, int child, std::vector<Var> inputs) const;
  int child_count() const { return static_cast<int>(children_.size()); }
  const Module& child(int number) const { return *child_at(number).module; }

 private:
  struct Child {
    std::string name;
    ModulePtr module;
    size_t first_parameter, parameter_count, first_table, table_count, first_statistics, statistics_count;
  };
  int add_child(std::string name, ModulePtr module);
  const Child& child_at(int number) const;
  std::vector<Child> children_;
  std::map<std::string, int> tensors_;  ///< the child that names each
};

/// Children one after another: the first gets the inputs, each later one the output before it.
///   Sequence().then("norm", LayerNorm(64)).then("linear", Linear(64, 256))
///   Sequence(LayerNorm(64), Linear(64, 256))    children "0" and "1"
class Sequence : public Composite {
 public:
  Sequence() = default;
  template <class First, class Second, class... Rest>
  Sequence(First first, Second second, Rest... rest) {
    int number = 0;
    const auto append = [&](auto& child) { add(std::to_string(number++), std::move(child)); };
    append(first), append(second), (append(rest), ...);
  }
  template <class M>
  Sequence then(std::string name, M child) && {
    add(std::move(name), std::move(child));
    return std::move(*this);
  }
  /// Of the first module. Errors  UsageError for an empty sequence; so has forward().
  InputCount input_count() const override;
  Var forward(const Call& call) const override;
};

}  // namespace sluice::layers
