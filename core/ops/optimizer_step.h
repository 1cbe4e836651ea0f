#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"

namespace sluice {

/// One parameter of a step, with all that the step reads and writes of it.
struct OptimizerSlot {
  Tensor parameter;  ///< the master weights
  Tensor gradient;
  std::vector<Tensor> states;  ///< of sgd_step {velocity}, of adam_step {m, v}, of rmsprop_step {square, velocity}, of lion_step {m};
                               ///< without velocity where the momentum is 0, without Adam's m where beta1 is; adafactor_step says its own
  bool decay = true;           ///< whether weight decay holds for this parameter
  Tensor working{};            ///< a bf16 copy of f32 weights, written with them; undefined: there is none
  std::optional<RandomStream> stochastic{};  ///< the copy is rounded as round_stochastically does; nothing: to the nearest
  int64_t first_element = 0;                 ///< the number in the stream of the first, of a part of a tensor; a multiple of 8
  std::string name{};                        ///< of the parameter, by which groups of an optimizer know it
};

/// Scales the gradients of a step so that their global norm is at most `largest_norm`. The norm stays on the device, so that nobody waits
/// for it. A norm that is not finite makes the step change nothing: the caller finds it when it reads the norm later.
struct GradientClip {
  Tensor sum_of_squares{};  ///< f64 [], over all gradients; undefined: gradients are taken as they are
  double largest_norm = 0;  ///< 0 = no limit
};

/// In-place steps of optimizers over a list of parameters of one device, one fused pass over each. In all of them g is the clipped gradient.
/// Shape   parameter, gradient, states and working copy of a slot alike and contiguous.
/// Dtypes  f32, f64; all of a slot the same, but for the working copy.
/// Errors  UsageError when one of them differs from the parameter.

/// What all steps ask of parameters, gradients, working copies and the clip; each asks for its own states.
/// Errors  UsageError, beginning with the op.
void require_slots(const char* op, const std::vector<OptimizerSlot>& slots, const GradientClip& clip);

struct SgdStep {
  double learning_rate;
  double weight_decay;  ///< added to g as weight_decay * parameter
  double momentum;
  bool nesterov;
};
/// velocity = momentum velocity + g;  parameter -= learning_rate (nesterov ? g + momentum velocity : velocity).
void sgd_step(const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip = {});

struct AdamStep {
  double learning_rate;
  double beta1, beta2, epsilon;
  double weight_decay;
  bool decoupled;  ///< AdamW: parameter *= 1 - learning_rate weight_decay; else weight_decay * parameter is added to g
  int64_t step;    ///< from 1, for the bias correction
};
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  parameter -= learning_rate m' / (sqrt(v') + epsilon), where
/// m' = m / (1 - beta1^step) and v' = v / (1 - beta2^step).
/// Source  Kingma & Ba 2014, arXiv:1412.6980; Loshchilov & Hutter 2017, arXiv:1711.05101.
void adam_step(const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip = {});

struct RmsPropStep {
  double learning_rate;
  double average;  ///< of squares: how much of the old one is kept
  double momentum, epsilon;
  double weight_decay;  ///< added to g as weight_decay * parameter
};
/// square = average square + (1 - average) g^2;  velocity = momentum velocity + learning_rate g / sqrt(square + epsilon);
/// parameter -= velocity. The epsilon lies inside the root, as in TensorFlow.
/// Source  Hinton 2012, "Neural networks for machine learning", lecture 6e.
void rmsprop_step(const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip = {});

struct LionStep {
  double learning_rate;
  double beta1, beta2;
  double weight_decay;  ///< decoupled
};
/// c = beta1 m + (1 - beta1) g;  parameter = (1 - learning_rate weight_decay) parameter - learning_rate sign(c);
/// m = beta2 m + (1 - beta2) g.
/// Source  Chen et al. 2023, arXiv:2302.06675, algorithm 2.
void lion_step(const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip = {});

/// working = weights in bf16, each element to one of its two neighbours with the probabilities that make the mean the element. Which one
/// is a function of the stream and the element's number alone; `first_element`, a multiple of 8, is that of the first.
/// Shape   alike and contiguous; f32 -> bf16.
/// Source  Gupta et al. 2015, arXiv:1502.02551.
void round_stochastically(const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element = 0);

namespace kernels {
void sgd_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip);
void sgd_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip);
void adam_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip);
void adam_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip);
void rmsprop_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip);
void rmsprop_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip);
void lion_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip);
void lion_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip);
void round_stochastically(Cpu& cpu, const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element);
void round_stochastically(Cuda& cuda, const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element);
}  // namespace kernels

}  // namespace sluice
