#pragma once
#include <map>
#include <string>
#include <vector>

#include "parallel/checkpoint.h"
#include "parallel/inference.h"

namespace sluice::training {

/// What a trained model makes of samples: the outputs of its graph, by a forward-only pipeline over any devices of one kind. Nothing of the
/// loss, of targets or of an optimizer is there.
///   training::Predictor predictor(net, parallel::find_checkpoint("runs/digits"), devices("cpu:0,cpu:1"));
///   const Tensor logits = predictor.predict({{"image", images}});
/// Threads  one caller.
class Predictor {
 public:
  /// `graph`  of a model with an output. `weights`  of all of it, or of what the output depends on; what else is among them,
  /// as the other half of a model that was trained, is left.
  /// Errors  UsageError for a graph without an output, and as InferencePipeline.
  Predictor(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
            const parallel::InferenceOptions& options = {});

  /// With the weights of a checkpoint of the model: the moving averages where it has them.
  /// Errors  as above, and DataError of the checkpoint.
  Predictor(const layers::Graph& graph, const parallel::Checkpoint& checkpoint, std::vector<DevicePtr> devices,
            const parallel::InferenceOptions& options = {});

  /// The graph's first output.
  /// Shape   inputs by name [samples, ...], any number of samples from 1 on -> the output [samples, ...], on the host, in the working dtype.
  /// Errors  UsageError for an input that is missing, unknown or of another number of samples.
  Tensor predict(const std::map<std::string, Tensor>& inputs);
  /// All outputs, by the names of their nodes: of a graph on which Graph::output was called several times.
  std::map<std::string, Tensor> predict_all(const std::map<std::string, Tensor>& inputs);

  const parallel::InferencePipeline& pipeline() const { return pipeline_; }

 private:
  Batch checked(const std::map<std::string, Tensor>& inputs) const;

  parallel::InferencePipeline pipeline_;
};

}  // namespace sluice::training
