#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/optim/learning_rate.h"
#include "core/ops/optimizer_step.h"

namespace sluice {

/// What parameters of some names have of their own; what is not given is the optimizer's.
struct ParameterGroup {
  std::string names;  ///< a pattern of full names: "head.*" (matches_pattern); a tied parameter has that of the earlier node
  struct Settings {
    std::optional<double> lr{};            ///< in the place of the optimizer's (rate.base): the schedule, a function too, is scaled to it
    std::optional<double> weight_decay{};  ///< as the optimizer's, for those parameters that decay
  } settings;
};

/// What an optimizer keeps of one parameter.
struct OptimizerState {
  std::string name;
  Shape shape;
};

/// How parameters follow their gradients. It holds settings only: the states of a parameter belong to the caller, who counts, saves
/// and moves them.
/// Threads  any; `apply` changes the tensors it is given and nothing else.
class Optimizer {
 public:
  struct Update {
    double learning_rate;
    int64_t step;                          ///< from 1; of those that changed something
    GradientClip clip{};                   ///< of the gradients of all parameters together
    std::optional<double> weight_decay{};  ///< in the place of the optimizer's
  };

  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  /// The numbers that decide its steps, beside rate, averages and groups, each with its name: ranks of a job are held to have them in common.
  virtual std::vector<std::pair<std::string, double>> settings() const { return {}; }
  /// The states that these options need of any parameter.
  virtual std::vector<std::string> state_names() const = 0;
  /// Those of a parameter of that shape, each by a name of its own. They have its dtype and start at zero.
  virtual std::vector<OptimizerState> states_of(const Shape& parameter) const;
  /// Whether the step of an element depends on others of its parameter, so that no part of one can be stepped alone. Else all states have the
  /// parameter's shape.
  virtual bool needs_whole_parameters() const { return false; }
  /// Those that only other options need. A checkpoint may have them, of a training with such options; they are left aside then.
  virtual std::vector<std::string> unneeded_state_names() const { return {}; }
  /// Changes the parameters, one at least, and their states, which come in the order of states_of(), in place. All are of one device. Groups
  /// have no part in it; nor, unless is_fused(), have the clip and working copies: gradients come clipped and finite, and step() writes the
  /// copies.
  virtual void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const = 0;
  /// Whether apply() heeds `update.clip` itself and writes the working copies, as the passes of core/ops/optimizer_step.h do. For others
  /// step() reads the norm, which waits for a GPU, and makes passes of its own. A class made from a fused one whose apply() no longer calls
  /// that one's says false.
  virtual bool is_fused() const { return false; }
  /// Another of the same class, with the same settings: each class that is trained with defines it anew.
  virtual std::unique_ptr<Optimizer> clone() const = 0;

  /// Gives parameters of some names settings of their own; of several groups that say a name the first one counts.
  ///   optimizer.groups({{"head.*", {.lr = 1e-3}}, {"*", {.lr = 1e-5, .weight_decay = 0}}});
  /// Errors  UsageError for a setting that is negative or not finite, and a rate where the optimizer's own is 0.
  void groups(std::vector<ParameterGroup> groups);
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  /// Errors  UsageError for a group that says none of these parameters.
  void require_groups(const std::vector<std::string>& parameters) const;
  /// Errors  UsageError where states_of() a parameter of that shape names a state twice, or gives one another shape without
  ///         needs_whole_parameters().
  void require_states(const Shape& parameter) const;
  /// apply() with each group's settings. Where the norm of the gradients is not finite nothing changes.
  void step(const std::vector<OptimizerSlot>& slots, const Update& update) const;
  /// Of the moving averages at a step, from 1: min(ema, (1 + step) / (10 + step)), so that the first steps soon forget the start.
  /// Source  TensorFlow's ExponentialMovingAverage with num_updates.
  double ema_decay(int64_t step) const;

  LearningRate rate;
  /// Decay of the exponential moving averages of weights and running statistics, which evaluation uses; 0 = there are none, and at most
  /// below 1. Those who hold the weights hold the averages too, start them at the weights and let them follow every step.
  double ema = 0;

 private:
  void check_rates() const;
  void step_groups(const std::vector<OptimizerSlot>& slots, const Update& update) const;

  std::vector<ParameterGroup> groups_;
};

/// Stochastic gradient descent: see sgd_step. The momentum has a state only when it is not 0; so it is with RMSProp's, and with Adam's beta1.
class SGD : public Optimizer {
 public:
  struct Options {
    double lr = 0.1;
    double momentum = 0;
    double weight_decay = 0;
    bool nesterov = false;
  };
  explicit SGD(const Options& options);
  std::string name() const override { return "sgd"; }
  std::vector<std::pair<std::string, double>> settings() const override;
  std::vector<std::string> state_names() const override;
  std::vector<std::string> unneeded_state_names() const override;
  bool is_fused() const override { return true; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override;
  std::unique_ptr<Optimizer> clone() const override;

 private:
  Options options_;
};

/// Adam with weight decay as part of the gradient: see adam_step.
class Adam : public Optimizer {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;
  };
  explicit Adam(const Options& options) : Adam("adam", options) {}
  std::string name() const override { return "adam"; }
  std::vector<std::pair<std::string, double>> settings() const override;
  std::vector<std::string> state_names() const override;
  std::vector<std::string> unneeded_state_names() const override;
  bool is_fused() const override { return true; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override;
  std::unique_ptr<Optimizer> clone() const override;

 protected:
  /// `name`  of what errors speak of.
  Adam(const char* name, const Options& options);
  virtual bool decoupled() const { return false; }

 private:
  Options options_;
};

/// Adam with decoupled weight decay.
class AdamW : public Adam {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
  };
  explicit AdamW(const Options& options);
  std::string name() const override { return "adamw"; }
  std::unique_ptr<Optimizer> clone() const override;

 protected:
  bool decoupled() const override { return true; }
};

/// RMSProp as TensorFlow defines it: see rmsprop_step. AmoebaNet was trained with epsilon 1.
class RMSProp : public Optimizer {
 public:
  struct Options {
    double lr = 1e-2;
    double average = 0.9;
    double momentum = 0.9;
    double epsilon = 1e-3;
    double weight_decay = 0;
  };
  explicit RMSProp(const Options& options);
  std::string name() const override { return "rmsprop"; }
  std::vector<std::pair<std::string, double>> settings() const override;
  std::vector<std::string> state_names() const override;
  std::vector<std::string> unneeded_state_names() const override;
  bool is_fused() const override { return true; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override;
  std::unique_ptr<Optimizer> clone() const override;

 private:
  Options options_;
};

/// The sign of an average of gradients: see lion_step. It wants a rate 3 to 10 times smaller, and a weight decay as much larger, than AdamW's.
class Lion : public Optimizer {
 public:
  struct Options {
    double lr = 1e-4;
    double beta1 = 0.9, beta2 = 0.99;
    double weight_decay = 0;
  };
  explicit Lion(const Options& options);
  std::string name() const override { return "lion"; }
  std::vector<std::pair<std::string, double>> settings() const override;
  std::vector<std::string> state_names() const override { return {"m"}; }
  bool is_fused() const override { return true; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override;
  std::unique_ptr<Optimizer> clone() const override;

 private:
  Options options_;
};

/// Adaptive rates by averages of rows and columns, which take next to no memory: see adafactor_step. It keeps no average of gradients.
/// Source  the defaults are those of torch.optim.Adafactor.
class Adafactor : public Optimizer {
 public:
  struct Options {
    double lr = 1e-2;           ///< the largest: 1 / sqrt(step) where that is less; times the RMS of the parameter
    double decay = 0.8;         ///< AdafactorStep::decay
    double least_scale = 1e-3;  ///< AdafactorStep::least_scale
    double threshold = 1;       ///< AdafactorStep::threshold
    double weight_decay = 0;
  };
  explicit Adafactor(const Options& options);
  std::string name() const override { return "adafactor"; }
  std::vector<std::pair<std::string, double>> settings() const override;
  std::vector<std::string> state_names() const override { return {"row", "column", "square"}; }
  /// {row [R], column [C]} of a parameter of several axes, else {square}.
  std::vector<OptimizerState> states_of(const Shape& parameter) const override;
  bool needs_whole_parameters() const override { return true; }
  bool is_fused() const override { return true; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override;
  std::unique_ptr<Optimizer> clone() const override;

 private:
  Options options_;
};

/// What a config says of any optimizer; each takes what it knows. What a config leaves out is as here whatever the rule,
/// and not as in the rule's own Options: so weight_decay is 0 for adamw too, and beta2 0.999 for lion too.
struct OptimizerOptions {
  double lr = 1e-3;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double average = 0.9;  ///< of rmsprop
};
/// "sgd", "rmsprop", "adam", "adamw", "lion" or "adafactor". Errors  UsageError for another name (naming the nearest), or an option out of its range.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options);

}  // namespace sluice
