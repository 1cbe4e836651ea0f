#include "layers/dropout.h"

#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"

namespace sluice::layers {

namespace {

double checked_probability(double p) {
  require(p >= 0 && p < 1, "Dropout: needs a probability in [0, 1), got ", p);
  return p;
}

}  // namespace

Dropout::Dropout(double p) : p_(checked_probability(p)) {}

Var Dropout::forward(const Call& call) const { return call.training && p_ > 0 ? dropout(call.inputs[0], p_, call.random) : call.inputs[0]; }

double Residual::checked(double p) { return checked_probability(p); }

Var Residual::forward(const Call& call) const {
  const Var branch = run(call, branch_, {call.inputs.front()}), x = in_working_dtype(call.inputs.back(), branch);
  require(branch.shape() == x.shape(), "Residual: needs a branch that keeps the shape of what it is added to, got ", branch.shape(),
          " beside ", x.shape());
  if (!call.training || dropout_ == 0) return sluice::add(branch, x);
  return dropout_add(branch, x, dropout_, call.random);
}

}  // namespace sluice::layers
