#include "layers/combine.h"

#include <algorithm>

#include "autograd/ops/cast.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/elementwise.h"

namespace sluice::layers {

namespace {

std::vector<Var> in_one_dtype(const Call& call) {
  std::vector<Var> all = call.inputs;
  const auto first = std::ranges::find_if(all, [](const Var& x) { return is_floating(x.dtype()); });
  if (first == all.end()) return all;
  const DType dtype = first->dtype();
  for (Var& x : all) x = cast(x, dtype);
  return all;
}

Var folded(const Call& call, Var (*combine)(const Var&, const Var&)) {
  const std::vector<Var> all = in_one_dtype(call);
  Var result = all[0];
  for (size_t i = 1; i < all.size(); ++i) result = combine(result, all[i]);
  return result;
}

}  // namespace

Var Add::forward(const Call& call) const { return folded(call, sluice::add); }

Var Multiply::forward(const Call& call) const { return folded(call, sluice::mul); }

Concat::Concat(int axis) : axis_(axis) {
  require(axis != 0, "Concat: needs an axis of the samples, which begin with axis 1, got 0, the batch");
}

Var Concat::forward(const Call& call) const {
  require(normal_axis("Concat", axis_, call.inputs[0].shape().rank()) > 0, "Concat: needs an axis of the samples, got axis ", axis_, " of ",
          call.inputs[0].shape(), ", the batch");
  return concat(in_one_dtype(call), axis_);
}

}  // namespace sluice::layers
