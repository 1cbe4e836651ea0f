#include "core/ops/recurrent.h"

#include "core/dispatch.h"
#include "core/ops/concat.h"
#include "core/ops/copy.h"
#include "core/ops/linear.h"
#include "core/ops/matmul.h"
#include "core/ops/padding.h"

namespace sluice {

namespace {

/// B, T and H of sequences.
struct Extents {
  explicit Extents(const Tensor& y) : samples(y.dim(0)), steps(y.dim(1)), units(y.dim(2)) {}
  Extents(const char* op, const Tensor& gates, const Tensor& weight, int64_t count) {
    require(gates.rank() == 3 && gates.dim(1) > 0 && gates.dim(2) % count == 0, op, ": needs gates [B, T, ", count,
            " H] of at least one step, got ", gates.shape());
    samples = gates.dim(0), steps = gates.dim(1), units = gates.dim(2) / count;
    require(weight.shape() == Shape({count * units, units}), op, ": needs a weight ", Shape{count * units, units}, " for gates ",
            gates.shape(), ", got ", weight.shape());
    require(is_floating(gates.dtype()) && weight.dtype() == gates.dtype(), op, ": needs gates and weight of one floating dtype, got ",
            gates, " and ", weight);
  }
  Shape states() const { return {samples, units}; }
  Shape of_all(int64_t count) const { return {samples, steps, count * units}; }
  Cost cost(int64_t numbers, DType dtype) const {
    const auto elements = static_cast<double>(samples * units), bytes = elements * static_cast<double>(size_of(dtype));
    return {20 * elements, static_cast<double>(numbers) * bytes, static_cast<double>(numbers) * bytes / 2};
  }

  int64_t samples = 0, steps = 0, units = 0;
};

void check_state(const char* op, const char* what, const Tensor& state, const Extents& of, DType dtype) {
  if (state.defined())
    require(state.shape() == of.states() && state.dtype() == dtype, op, ": needs the ", what, " before the first step as ", name_of(dtype),
            " ", of.states(), ", got ", state);
}

Tensor checked_lengths(const char* op, const Tensor& lengths, const Extents& of) {
  if (!lengths.defined()) return {};
  check_lengths(op, lengths, of.samples);
  return lengths.contiguous();
}

Tensor with_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }
Tensor as_computed(const Tensor& x) { return x.defined() ? cast(x.contiguous(), compute_dtype(x.dtype())) : x; }

/// The columns of a weight as rows: how products of few rows read it fastest, once for all steps.
Tensor turned(const Tensor& weight) { return weight.transpose(0, 1).contiguous(); }

/// Gradient of the weight: over all steps the products of what the gates get with the state before.
Tensor weight_gradient(const Tensor& dproduct, const Tensor& before, const Tensor& y) {
  const Extents of(y);
  const Shape first{of.samples, 1, of.units};
  const Tensor begin = before.defined() ? before.contiguous().reshape(first) : zeros(first, y.dtype(), y.device_ptr());
  const Tensor states = concat({begin, y.slice(1, 0, of.steps - 1)}, 1), rows = dproduct.reshape({of.samples * of.steps, dproduct.dim(2)});
  const Tensor gradient = empty({dproduct.dim(2), of.units}, compute_dtype(y.dtype()), y.device_ptr());
  matmul_into(rows, states.reshape({of.samples * of.steps, of.units}), gradient, true, false, 0);
  return gradient;
}

}  // namespace

LstmResult lstm_forward(const Tensor& gates, const Tensor& weight, const LstmState& before, const Tensor& lengths) {
  const Extents of("lstm", gates, weight, 4);
  check_state("lstm", "hidden state", before.hidden, of, gates.dtype());
  check_state("lstm", "cell", before.cell, of, gates.dtype());
  const DType dtype = gates.dtype(), computed = compute_dtype(dtype);
  const DevicePtr& device = gates.device_ptr();
  const LstmResult result{empty(of.of_all(1), dtype, device), empty(of.of_all(1), computed, device), empty(of.of_all(4), dtype, device)};
  const Tensor rows = with_rows(gates), columns = turned(weight), product = empty({of.samples, 4 * of.units}, computed, device);
  const Tensor ends = checked_lengths("lstm", lengths, of);
  Tensor hidden = before.hidden.defined() ? before.hidden.contiguous() : Tensor(), cell = as_computed(before.cell);
  for (int64_t t = 0; t < of.steps; ++t) {
    if (hidden.defined()) matmul_into(hidden, columns, product, false, false, 0);
    const kernels::LstmStep step{
        {ends, t, of.steps},       rows.select(1, t),    hidden.defined() ? product : Tensor(), cell, result.activated.select(1, t),
        result.cells.select(1, t), result.y.select(1, t)};
    run_kernel("lstm", {step.gates, weight, step.product, step.before, ends}, of.cost(10, dtype),
               [&](auto& context) { kernels::lstm_step(context, step); });
    hidden = step.y, cell = step.cell;
  }
  return result;
}

LstmGradients lstm_backward(const Tensor& weight, const LstmState& before, const LstmResult& result, const Tensor& dy,
                            const LstmWants& wants, const Tensor& dcell) {
  const Extents of(result.y);
  require(dy.shape() == result.y.shape(), "lstm: needs a gradient of the shape of y ", result.y.shape(), ", got ", dy.shape());
  const DType dtype = dy.dtype(), computed = compute_dtype(dtype);
  const DevicePtr& device = dy.device_ptr();
  const bool begins_with_cell = dcell.defined();
  const Tensor dgates = empty(of.of_all(4), dtype, device), dcells = empty(of.states(), computed, device);
  const Tensor dhidden = empty(of.states(), computed, device), rows = with_rows(dy), first_cell = as_computed(before.cell);
  const Tensor activated = with_rows(result.activated), cells = with_rows(result.cells);
  if (begins_with_cell) copy(dcell, dcells), fill(dhidden, 0);
  for (int64_t t = of.steps - 1; t >= 0; --t) {
    const Tensor later = t < of.steps - 1 || begins_with_cell ? dhidden : Tensor();
    const kernels::LstmBackwardStep step{
        activated.select(1, t), t > 0 ? cells.select(1, t - 1) : first_cell, cells.select(1, t), rows.select(1, t), later, dcells,
        dgates.select(1, t)};
    run_kernel("lstm_backward", {step.activated, step.before, step.cell, step.dy}, of.cost(13, dtype),
               [&](auto& context) { kernels::lstm_backward_step(context, step); });
    if (t > 0 || wants.hidden) matmul_into(step.dgates, weight, dhidden, false, false, 0);
  }
  return {dgates,
          wants.weight ? weight_gradient(dgates, before.hidden, result.y) : Tensor(),
          {wants.hidden ? dhidden : Tensor(), wants.cell ? dcells : Tensor()}};
}

GruResult gru_forward(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& before, const Tensor& lengths) {
  const Extents of("gru", gates, weight, 3);
  const DType dtype = gates.dtype(), computed = compute_dtype(dtype);
  require(bias.shape() == Shape({of.units}) && bias.dtype() == dtype, "gru: needs a bias ", name_of(dtype), " [", of.units, "], got ",
          bias);
  check_state("gru", "hidden state", before, of, dtype);
  const DevicePtr& device = gates.device_ptr();
  const GruResult result{empty(of.of_all(1), dtype, device), empty(of.of_all(4), dtype, device)};
  const Tensor rows = with_rows(gates), columns = turned(weight), product = empty({of.samples, 3 * of.units}, computed, device);
  const Tensor offset = bias.contiguous(), ends = checked_lengths("gru", lengths, of);
  Tensor hidden = before.defined() ? before.contiguous() : Tensor();
  for (int64_t t = 0; t < of.steps; ++t) {
    if (hidden.defined()) matmul_into(hidden, columns, product, false, false, 0);
    const kernels::GruStep step{{ends, t, of.steps},           rows.select(1, t),    hidden.defined() ? product : Tensor(), offset, hidden,
                                result.activated.select(1, t), result.y.select(1, t)};
    run_kernel("gru", {step.gates, weight, step.product, step.bias, step.before, ends}, of.cost(9, dtype),
               [&](auto& context) { kernels::gru_step(context, step); });
    hidden = step.y;
  }
  return result;
}

GruGradients gru_backward(const Tensor& weight, const Tensor& before, const GruResult& result, const Tensor& dy, const GruWants& wants) {
  const Extents of(result.y);
  require(dy.shape() == result.y.shape(), "gru: needs a gradient of the shape of y ", result.y.shape(), ", got ", dy.shape());
  const DType dtype = dy.dtype(), computed = compute_dtype(dtype);
  const DevicePtr& device = dy.device_ptr();
  const Tensor dgates = empty(of.of_all(3), dtype, device), dproduct = empty(of.of_all(3), dtype, device);
  const Tensor dhidden = empty(of.states(), computed, device), rows = with_rows(dy),
               first = before.defined() ? before.contiguous() : before;
  const Tensor activated = with_rows(result.activated), states = with_rows(result.y);
  for (int64_t t = of.steps - 1; t >= 0; --t) {
    const kernels::GruBackwardStep step{activated.select(1, t), t > 0 ? states.select(1, t - 1) : first,
                                        rows.select(1, t),      dhidden,
                                        dgates.select(1, t),    dproduct.select(1, t),
                                        t == of.steps - 1};
    run_kernel("gru_backward", {step.activated, step.before, step.dy}, of.cost(13, dtype),
               [&](auto& context) { kernels::gru_backward_step(context, step); });
    if (t > 0 || wants.before) matmul_into(step.dproduct, weight, dhidden, false, false, 1);
  }
  const Tensor of_share = wants.bias ? dproduct.slice(2, 2 * of.units, 3 * of.units).contiguous() : Tensor();
  return {dgates, wants.weight ? weight_gradient(dproduct, before, result.y) : Tensor(), wants.bias ? sum_rows(of_share) : Tensor(),
          wants.before ? dhidden : Tensor()};
}

}  // namespace sluice
