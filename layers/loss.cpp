#include "layers/loss.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/cast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "core/ops/copy.h"

namespace sluice::layers {

namespace {

/// Weights of the leading axes of `losses`, with axes of extent 1 for the others, in the dtype of the losses.
Tensor leading_weights(const Loss& loss, const Tensor& weights, const Tensor& losses) {
  const auto of_weights = weights.shape().extents(), of_losses = losses.shape().extents();
  const bool leads =
      !of_weights.empty() && of_weights.size() <= of_losses.size() && std::ranges::equal(of_weights, of_losses.first(of_weights.size()));
  require(leads, type_of(loss), ": needs weights of the leading axes of its losses ", losses.shape(), ", got ", weights.shape());
  Shape shape = weights.shape();
  while (shape.rank() < losses.rank()) shape = shape.appended(1);
  return cast(weights.contiguous(), losses.dtype()).reshape(shape);
}

/// The call with its inputs of floats in the dtype of the first one's arithmetic, so that small differences of large bf16 numbers stay.
Call in_arithmetic(const Call& call) {
  Call exact = call;
  const DType dtype = compute_dtype(call.inputs[0].value().dtype());
  for (Var& x : exact.inputs)
    if (is_floating(x.value().dtype())) x = cast(x, dtype);
  return exact;
}

void require_losses(const Loss& loss, const Tensor& losses, int64_t samples) {
  require(losses.rank() > 0 && losses.dim(0) == samples && losses.elements() > 0, type_of(loss), ": needs losses of ", samples,
          " samples [", samples, ", ...] with elements, got ", losses.shape(), "; return one for each sample, or for each of its elements");
}

}  // namespace

Tensor Loss::weights(const std::vector<Tensor>& inputs) const {
  const auto index = static_cast<size_t>(inputs_);
  if (inputs.size() <= index) return {};
  require(inputs[index].defined(), type_of(*this), ": needs weights that are an input of the graph, got those of a node");
  return inputs[index];
}

Var Loss::forward(const Call& call) const {
  std::vector<Tensor> values;
  for (const Var& x : call.inputs) values.push_back(x.value());
  const Var made = losses(in_arithmetic(call));
  const Var each = cast(made, compute_dtype(made.value().dtype()));
  const int64_t samples = call.inputs[0].dim(0);
  require_losses(*this, each.value(), samples);
  if (call.shapes_of_losses) call.shapes_of_losses->push_back(each.shape());
  const Tensor weighing = weights(values);
  const auto elements = static_cast<double>(each.value().elements());
  if (!weighing.defined()) return scale(sum(each), call.loss_scale * static_cast<double>(samples) / elements);
  const Tensor factors = leading_weights(*this, weighing, each.value());
  return scale(sum(mul(each, factors)), call.loss_scale * static_cast<double>(factors.elements()) / elements);
}

double Loss::loss_weight(const std::vector<Tensor>& inputs, int64_t samples) const {
  const Tensor weighing = weights(inputs);
  if (!weighing.defined()) return static_cast<double>(samples);
  for (const double weight : weighing.to_vector())
    require(std::isfinite(weight) && weight >= 0, type_of(*this), ": needs weights that are finite and at least 0, got ", weight,
            "; a factor that may be below 0 belongs into the losses: multiply what Loss::losses returns by it");
  return sum(cast(weighing, DType::f64)).item();
}

}  // namespace sluice::layers
