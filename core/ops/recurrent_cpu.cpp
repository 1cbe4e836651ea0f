#include "core/cpu/cpu.h"
#include "core/ops/lanes.h"
#include "core/ops/padding.h"
#include "core/ops/recurrent_rules.h"
#include "core/ops/row_parts.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kWork = 16;  // of a unit, in numbers read: exponentials take most

/// Runs a rule for all units of all sequences.
template <template <class> class Rule, class Step>
void run_step(Cpu& cpu, const char* op, const Step& step, const Shape& units) {
  on_float(step.activated.dtype(), op, [&]<class T>() {
    const Rule<T> rule(step);
    cpu.parallel_for(units.elements(), grain_for(kWork), [&, width = units[1]](int64_t begin, int64_t end) {
      each_row_part(begin, end, width, [&](int64_t row, int64_t first, int64_t last) {
        for_lanes<T>(first, last, [&](auto load, auto store) { rule.run(row, load, store); });
      });
    });
  });
}

/// Once, before the first step.
void check_at_first(const char* op, const StepOfLengths& of) {
  if (of.lengths.defined() && of.t == 0) check_lengths_within(op, of.lengths, of.steps);
}

}  // namespace

void lstm_step(Cpu& cpu, const LstmStep& step) {
  check_at_first("lstm", step.of_lengths);
  run_step<rules::LstmForward>(cpu, "lstm", step, step.y.shape());
}
void lstm_backward_step(Cpu& cpu, const LstmBackwardStep& step) {
  run_step<rules::LstmBackward>(cpu, "lstm_backward", step, step.dy.shape());
}
void gru_step(Cpu& cpu, const GruStep& step) {
  check_at_first("gru", step.of_lengths);
  run_step<rules::GruForward>(cpu, "gru", step, step.y.shape());
}
void gru_backward_step(Cpu& cpu, const GruBackwardStep& step) { run_step<rules::GruBackward>(cpu, "gru_backward", step, step.dy.shape()); }

}  // namespace sluice::kernels
