#include "autograd/ops/cross_entropy.h"

#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

struct CrossEntropyAttributes {
  CrossEntropyOptions options;  ///< without the weights, which are the fourth saved tensor where there are some
  double scale;
  auto fields() const { return std::tie(options.label_smoothing, options.ignore_index, scale); }
};

Gradients backward(const Node& node, const Tensor& dy, Needs) {
  auto [options, scale] = node.attribute<CrossEntropyAttributes>();
  if (node.saved.size() > 3) options.weights = node.saved[3];
  // The logits are a language model's largest activation: where nothing else holds them, their gradient takes their place.
  const Tensor& logits = node.saved[0];
  const bool in_place = logits.is_exclusive() && (logits.is_contiguous() || has_padded_rows(logits));
  const Tensor dlogits = in_place ? logits : empty_rows(logits.shape(), logits.dtype(), logits.device_ptr());
  cross_entropy_backward_into(dy, logits, node.saved[1], node.saved[2], options, scale, dlogits);
  return {dlogits};
}

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& targets, const CrossEntropyOptions& options, double scale) {
  auto [loss, row_sums] = cross_entropy(logits.value(), targets, options, scale);
  std::vector<Tensor> saved{logits.value(), targets, row_sums};
  if (options.weights.defined()) saved.push_back(options.weights);
  CrossEntropyAttributes attributes{options, scale};
  attributes.options.weights = {};
  return record("cross_entropy", loss, {logits}, saved, attributes, backward);
}

}  // namespace sluice
