#pragma once
#include <type_traits>

#include "core/host_device.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/recurrent.h"

/// The arithmetic of recurrent steps, written once for CPU and CUDA kernels. run(row, load, store) computes the units of one sequence that
/// load(pointer) reads beside one another and store(pointer, value) writes: one, or a register of them.
namespace sluice::rules {

/// A matrix whose rows may lie apart, of parts of H columns; null where the tensor is undefined.
template <class T>
struct PartsOfRows {
  explicit PartsOfRows(const Tensor& x)
      : first(x.defined() ? x.data<std::remove_const_t<T>>() : nullptr), stride(x.defined() ? x.stride(0) : 0) {}
  SLUICE_HD T* at(int64_t row, int64_t column = 0) const { return first + row * stride + column; }
  SLUICE_HD explicit operator bool() const { return first != nullptr; }
  T* first;
  int64_t stride;
};

/// Whether a sequence has ended before a step; none has where there are no lengths.
struct HasEnded {
  explicit HasEnded(const kernels::StepOfLengths& step)
      : lengths(step.lengths.defined() ? step.lengths.data<int32_t>() : nullptr), t(step.t) {}
  SLUICE_HD bool operator()(int64_t row) const { return lengths && t >= lengths[row]; }
  const int32_t* lengths;
  int64_t t;
};

template <class T>
struct LstmForward {
  using C = compute_t<T>;
  explicit LstmForward(const kernels::LstmStep& step)
      : has_ended(step.of_lengths),
        gates(step.gates),
        product(step.product),
        before(step.before),
        activated(step.activated),
        cell(step.cell),
        y(step.y),
        width(step.y.dim(1)) {}

  template <class Load, class Store>
  SLUICE_HD void run(int64_t row, const Load& load, const Store& store) const {
    if (has_ended(row)) return keep(row, load, store);
    const auto sum = [&](int gate) {
      const auto of_inputs = load(gates.at(row, gate * width));
      return product ? of_inputs + load(product.at(row, gate * width)) : of_inputs;
    };
    const auto in = Sigmoid::value(sum(0)), forget = Sigmoid::value(sum(1)), candidate = Tanh::value(sum(2)), out = Sigmoid::value(sum(3));
    const auto kept = before ? in * candidate + forget * load(before.at(row)) : in * candidate;
    store(activated.at(row), in), store(activated.at(row, width), forget);
    store(activated.at(row, 2 * width), candidate), store(activated.at(row, 3 * width), out);
    store(cell.at(row), kept);
    store(y.at(row), out * Tanh::value(kept));
  }

  /// After a sequence's end its cell stays: only the forget gate is open, so that the gradient of the cell goes back and nothing else does.
  template <class Load, class Store>
  SLUICE_HD void keep(int64_t row, const Load& load, const Store& store) const {
    using V = decltype(load(gates.at(row)));
    for (int gate = 0; gate < 4; ++gate) store(activated.at(row, gate * width), V(gate == 1 ? 1 : 0));
    store(cell.at(row), before ? load(before.at(row)) : V(0));
    store(y.at(row), V(0));
  }

  HasEnded has_ended;
  PartsOfRows<const T> gates;
  PartsOfRows<const C> product, before;
  PartsOfRows<T> activated;
  PartsOfRows<C> cell;
  PartsOfRows<T> y;
  int64_t width;
};

template <class T>
struct LstmBackward {
  using C = compute_t<T>;
  explicit LstmBackward(const kernels::LstmBackwardStep& step)
      : activated(step.activated),
        before(step.before),
        cell(step.cell),
        dy(step.dy),
        later(step.later),
        dcell(step.dcell),
        dgates(step.dgates),
        width(step.dy.dim(1)) {}

  template <class Load, class Store>
  SLUICE_HD void run(int64_t row, const Load& load, const Store& store) const {
    const auto of = [&](int gate) { return load(activated.at(row, gate * width)); };
    const auto in = of(0), forget = of(1), candidate = of(2), out = of(3), shown = Tanh::value(load(cell.at(row)));
    using V = std::remove_const_t<decltype(in)>;
    const V one(1);
    V dh = load(dy.at(row));
    if (later) dh = dh + load(later.at(row));
    V dc = dh * out * (one - shown * shown);
    if (later) dc = dc + load(dcell.at(row));
    const auto give = [&](int gate, V value) { store(dgates.at(row, gate * width), value); };
    give(0, dc * candidate * in * (one - in));
    give(1, before ? dc * load(before.at(row)) * forget * (one - forget) : V(0));
    give(2, dc * in * (one - candidate * candidate));
    give(3, dh * shown * out * (one - out));
    store(dcell.at(row), dc * forget);
  }

  PartsOfRows<const T> activated;
  PartsOfRows<const C> before, cell;
  PartsOfRows<const T> dy;
  PartsOfRows<const C> later;
  PartsOfRows<C> dcell;
  PartsOfRows<T> dgates;
  int64_t width;
};

template <class T>
struct GruForward {
  using C = compute_t<T>;
  explicit GruForward(const kernels::GruStep& step)
      : has_ended(step.of_lengths),
        gates(step.gates),
        product(step.product),
        before(step.before),
        activated(step.activated),
        y(step.y),
        bias(step.bias.data<T>()),
        width(step.y.dim(1)) {}

  template <class Load, class Store>
  SLUICE_HD void run(int64_t row, const Load& load, const Store& store) const {
    if (has_ended(row)) return leave_out(row, load, store);
    const auto sum = [&](int gate) {
      const auto of_inputs = load(gates.at(row, gate * width));
      return product ? of_inputs + load(product.at(row, gate * width)) : of_inputs;
    };
    const auto reset = Sigmoid::value(sum(0)), update = Sigmoid::value(sum(1));
    auto share = load(bias);
    if (product) share = share + load(product.at(row, 2 * width));
    const auto candidate = Tanh::value(load(gates.at(row, 2 * width)) + reset * share);
    auto result = candidate - update * candidate;
    if (before) result = result + update * load(before.at(row));
    store(activated.at(row), reset), store(activated.at(row, width), update);
    store(activated.at(row, 2 * width), candidate), store(activated.at(row, 3 * width), share);
    store(y.at(row), result);
  }

  template <class Load, class Store>
  SLUICE_HD void leave_out(int64_t row, const Load& load, const Store& store) const {
    using V = decltype(load(gates.at(row)));
    for (int part = 0; part < 4; ++part) store(activated.at(row, part * width), V(0));
    store(y.at(row), V(0));
  }

  HasEnded has_ended;
  PartsOfRows<const T> gates;
  PartsOfRows<const C> product;
  PartsOfRows<const T> before;
  PartsOfRows<T> activated, y;
  const T* bias;
  int64_t width;
};

template <class T>
struct GruBackward {
  using C = compute_t<T>;
  explicit GruBackward(const kernels::GruBackwardStep& step)
      : activated(step.activated),
        before(step.before),
        dy(step.dy),
        dhidden(step.dhidden),
        dgates(step.dgates),
        dproduct(step.dproduct),
        width(step.dy.dim(1)),
        is_last(step.is_last) {}

  template <class Load, class Store>
  SLUICE_HD void run(int64_t row, const Load& load, const Store& store) const {
    const auto of = [&](int gate) { return load(activated.at(row, gate * width)); };
    const auto reset = of(0), update = of(1), candidate = of(2), share = of(3);
    using V = std::remove_const_t<decltype(reset)>;
    const V one(1);
    V dh = load(dy.at(row));
    if (!is_last) dh = dh + load(dhidden.at(row));
    const V dcandidate = dh * (one - update) * (one - candidate * candidate);
    const V dreset = dcandidate * share * reset * (one - reset);
    const V change = before ? load(before.at(row)) - candidate : -candidate;
    const V dupdate = dh * change * update * (one - update);
    for (const auto& given : {dgates, dproduct}) store(given.at(row), dreset), store(given.at(row, width), dupdate);
    store(dgates.at(row, 2 * width), dcandidate);
    store(dproduct.at(row, 2 * width), dcandidate * reset);
    store(dhidden.at(row), dh * update);
  }

  PartsOfRows<const T> activated, before, dy;
  PartsOfRows<C> dhidden;
  PartsOfRows<T> dgates, dproduct;
  int64_t width;
  bool is_last;
};

}  // namespace sluice::rules
