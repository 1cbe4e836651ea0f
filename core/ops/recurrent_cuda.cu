#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/recurrent_rules.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 128;

/// A thread a unit: a step has few, and what limits it is how soon they all are done.
template <class T, class Rule>
__global__ void run_units(Rule rule, int64_t units) {
  const int64_t at = grid_index();
  if (at >= units) return;
  const int64_t row = at / rule.width, column = at % rule.width;
  const auto load = [column](const auto* from) { return Scalar<T>(static_cast<compute_t<T>>(from[column])); };
  const auto store = [column]<class S>(S* to, Scalar<T> value) { to[column] = static_cast<S>(value.value); };
  rule.run(row, load, store);
}

template <template <class> class Rule, class Step>
void run_step(Cuda& cuda, const char* op, const Step& step, const Shape& units) {
  if (units.elements() == 0) return;
  on_float(step.activated.dtype(), op, [&]<class T>() {
    const dim3 blocks(static_cast<unsigned>((units.elements() + kThreads - 1) / kThreads));
    launch(cuda, op, {blocks, kThreads}, run_units<T, Rule<T>>, Rule<T>(step), units.elements());
  });
}

}  // namespace

void lstm_step(Cuda& cuda, const LstmStep& step) { run_step<rules::LstmForward>(cuda, "lstm", step, step.y.shape()); }
void lstm_backward_step(Cuda& cuda, const LstmBackwardStep& step) {
  run_step<rules::LstmBackward>(cuda, "lstm_backward", step, step.dy.shape());
}
void gru_step(Cuda& cuda, const GruStep& step) { run_step<rules::GruForward>(cuda, "gru", step, step.y.shape()); }
void gru_backward_step(Cuda& cuda, const GruBackwardStep& step) {
  run_step<rules::GruBackward>(cuda, "gru_backward", step, step.dy.shape());
}

}  // namespace sluice::kernels
