#include "layers/dropout.h"

#include <algorithm>

#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"

namespace sluice::layers {

namespace {

/// x + dropout(branch).
Var residual_sum(const char* module, const Call& call, const Var& branch, const Var& x, double dropout) {
  const Var residual = in_working_dtype(x, branch);
  require(branch.shape() == residual.shape(), module, ": needs a branch that keeps the shape of what it is added to, got ", branch.shape(),
          " beside ", residual.shape());
  if (!call.training || dropout == 0) return sluice::add(branch, residual);
  return dropout_add(branch, residual, dropout, call.random);
}

}  // namespace

void check_probability(double p) { require(p >= 0 && p < 1, "Dropout: needs a probability in [0, 1), got ", p); }

Dropout::Dropout(double p) : p_(p) { check_probability(p); }

Var Dropout::forward(const Call& call) const { return call.training && p_ > 0 ? dropout(call.inputs[0], p_, call.random) : call.inputs[0]; }

InputCount Residual::input_count() const {
  const int most = child(branch_).input_count().most;
  return {1, most == InputCount::kAny ? most : 1 + std::max(1, most)};
}

Var Residual::forward(const Call& call) const {
  std::vector<Var> inputs{call.inputs[0]};
  for (size_t i = 2; i < call.inputs.size(); ++i) inputs.push_back(call.inputs[i]);
  const Var& x = call.inputs.size() > 1 ? call.inputs[1] : call.inputs[0];
  return residual_sum("Residual", call, run(call, branch_, std::move(inputs)), x, dropout_);
}

Var PreNorm::forward(const Call& call) const {
  std::vector<Var> inputs = call.inputs;
  inputs[0] = run(call, norm_, {call.inputs[0]});
  return run(call, layer_, std::move(inputs));
}

Var PreNormResidual::forward(const Call& call) const {
  std::vector<Var> inputs = call.inputs;
  inputs[0] = run(call, norm_, {call.inputs[0]});
  return residual_sum("PreNormResidual", call, run(call, layer_, std::move(inputs)), call.inputs[0], dropout_);
}

}  // namespace sluice::layers
