#include "autograd/ops/factorized_reduction.h"

#include "core/ops/factorized_reduction.h"

namespace sluice {

// Deferred as conv2d's gradients are: x and dy stay for those of the weights.
Var factorized_reduction(const Var& x, const Var& even, const Var& odd) {
  const auto gradients_of = [](const Node& node, const Tensor& dy, Needs needs) {
    const Tensor &x = node.saved[0], &even = node.saved[1], &odd = node.saved[2];
    Gradients gradients(3);
    if (needs[0]) gradients[0] = factorized_reduction_input_gradient(dy, even, odd, node.attribute<Shape>(), node.take_sum(0));
    for (size_t i : {1, 2})
      if (needs[i]) gradients[i] = factorized_reduction_weight_gradient(dy, x, i == 2, node.accumulator_of(i));
    return gradients;
  };
  Needs weights = Needs::of(1);
  weights.add(2);
  return record("factorized_reduction", factorized_reduction(x.value(), even.value(), odd.value()), {x, even, odd},
                {x.value(), even.value(), odd.value()}, x.shape(), gradients_of, {weights, Needs::of(0), Needs::of(0)});
}

}  // namespace sluice
