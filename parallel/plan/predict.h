#pragma once
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "layers/graph.h"
#include "parallel/plan/plan.h"
#include "parallel/run/batch_shape.h"
#include "parallel/run/trace.h"

namespace sluice::parallel {

/// What a training step will take, from the executor run on meta devices. Bytes are exact for CPU devices.
struct DevicePrediction {
  std::string name;
  int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
  int64_t activation_peak_bytes = 0;  ///< peak less parameters, gradients and optimizer state
  int64_t peak_bytes = 0, budget_bytes = 0;
  int64_t sent_bytes = 0;  ///< a step, to other devices
};
struct Prediction {
  bool fits = true;
  std::string reason;       ///< of a refusal: the OutOfMemory message, and which devices lack how many bytes
  double step_seconds = 0;  ///< on the devices' clocks
  double bubble = 0;        ///< 1 - mean busy time / step time
  double flops = 0;         ///< of one step, recomputation included
  std::vector<DevicePrediction> devices;
  Trace trace;  ///< of one step, on the devices' clocks; empty when it does not fit
};
/// Of each device: one speed for all, or one by device.
class DeviceSpeeds {
 public:
  DeviceSpeeds() = default;
  DeviceSpeeds(const DeviceSpeed& all) : all_(all) {}
  DeviceSpeeds(std::vector<DeviceSpeed> by_device) : by_device_(std::move(by_device)) {}

  /// Errors  UsageError where there is a speed for some devices only.
  const DeviceSpeed& of(size_t device) const {
    require(by_device_.empty() || device < by_device_.size(), "predict: needs a speed for every device or one for all, got ",
            by_device_.size());
    return by_device_.empty() ? all_ : by_device_[device];
  }

 private:
  DeviceSpeed all_{};
  std::vector<DeviceSpeed> by_device_{};
};

/// With the plan's `times` its program is simulated with them; otherwise each op takes what the device's speed says. Transfers between
/// devices take bytes / link_bytes_per_second + link_latency, of the slower of both ends.
/// Errors  UsageError for a plan that cannot be run (plan/check.h).
Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeeds& speeds);

/// The same of evaluating `batch` samples between two steps (Trainer::evaluate): only fits, reason and devices are filled in.
Prediction predict_evaluation(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, bool with_output);

/// By device: the most bytes that it holds in steps of mini-batches of these shapes.
/// Errors  OutOfMemory in the words of Trainer::step for the first shape that a budget does not hold.
std::vector<int64_t> peak_bytes_of_steps(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer,
                                         const std::vector<BatchShape>& shapes);

}  // namespace sluice::parallel
