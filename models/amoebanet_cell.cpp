#include "models/amoebanet_cell.h"

#include <algorithm>
#include <map>

#include "autograd/ops/concat_sums.h"
#include "autograd/ops/drop_path.h"
#include "autograd/ops/elementwise.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/feed_forward.h"
#include "layers/pooling.h"

namespace sluice::models {

using namespace layers;

namespace {

using enum CellOp;

const Genotype kNormalD{{{{conv_1x1, 1},
                          {max_pool_3x3, 1},
                          {none, 1},
                          {conv_1x7_7x1, 0},
                          {conv_1x1, 0},
                          {conv_1x7_7x1, 0},
                          {max_pool_3x3, 2},
                          {none, 2},
                          {average_pool_3x3, 1},
                          {conv_1x1, 5}}},
                        {0, 3, 4, 6}};
const Genotype kReductionD{{{{max_pool_2x2, 0},
                             {max_pool_3x3, 0},
                             {none, 2},
                             {conv_3x3, 1},
                             {conv_1x7_7x1, 2},
                             {max_pool_3x3, 2},
                             {none, 3},
                             {max_pool_2x2, 1},
                             {average_pool_3x3, 2},
                             {conv_1x1, 3}}},
                           {4, 5, 6}};
const Genotype kNormalB{{{{conv_1x1, 1},
                          {max_pool_3x3, 1},
                          {none, 1},
                          {separable_3x3, 0},
                          {conv_1x1, 1},
                          {separable_3x3, 0},
                          {conv_1x1, 2},
                          {none, 2},
                          {average_pool_3x3, 1},
                          {conv_1x1, 5}}},
                        {0, 3, 4, 6}};
/// Its separable_5x5 is called dilated in the paper's figure; the published code does not dilate it.
const Genotype kReductionB{{{{max_pool_2x2, 0},
                             {max_pool_3x3, 0},
                             {none, 2},
                             {conv_3x3, 1},
                             {separable_5x5, 2},
                             {max_pool_3x3, 2},
                             {none, 3},
                             {separable_3x3, 1},
                             {average_pool_3x3, 4},
                             {conv_1x1, 3}}},
                           {5, 6}};

Window window_of(int64_t height, int64_t width, int64_t stride_h, int64_t stride_w) { return {height, width, stride_h, stride_w}; }
Window square(int64_t size, int64_t stride) { return window_of(size, size, stride, stride); }

/// BatchNorm, with the ReLU of the convolution after it where there is one: one pass, and nothing between them is kept.
BatchNorm norm(int64_t channels, bool relu_after) {
  BatchNormOptions options;
  options.relu = relu_after;
  return BatchNorm(channels, options);
}

Sequence conv_norm(int64_t in, int64_t out, const Window& window, bool relu_after) {
  return Sequence().then("conv", Conv2d(in, out, window)).then("norm", norm(out, relu_after));
}

/// ReLU, unless the input went through it.
Sequence rectified(bool is_already) { return is_already ? Sequence() : Sequence().then("relu", ReLU()); }

/// What makes a state of an input.
Sequence relu_conv_norm(int64_t in, int64_t out, bool is_rectified, bool relu_after) {
  return rectified(is_rectified).then("conv", Conv2d(in, out, {})).then("norm", norm(out, relu_after));
}

/// The convolutions of `windows` on a quarter of the output's channels, between two 1x1 convolutions; ReLU before each but the first.
Sequence bottleneck(int64_t in, int64_t out, const std::vector<Window>& windows) {
  const int64_t inner = out / 4;
  Sequence sequence = Sequence().then("reduce", conv_norm(in, inner, {}, true));
  for (size_t i = 0; i < windows.size(); ++i)
    sequence = std::move(sequence).then("conv" + std::to_string(i), conv_norm(inner, inner, windows[i], true));
  return std::move(sequence).then("expand", conv_norm(inner, out, {}, false));
}

/// Twice depthwise and 1x1 convolution, BatchNorm; the first has the stride, and ReLU between them.
Sequence separable(int64_t in, int64_t out, int64_t size, int64_t stride) {
  const auto once = [size](int64_t from, int64_t to, int64_t step, bool relu_after) {
    return Sequence()
        .then("depthwise", Conv2d(from, from, square(size, step), from))
        .then("pointwise", Conv2d(from, to, {}))
        .then("norm", norm(to, relu_after));
  };
  return Sequence().then("first", once(in, out, stride, true)).then("second", once(out, out, 1, false));
}

/// A pool keeps the channels; where the state has others than the cell, a 1x1 convolution follows.
template <class Pool>
Sequence pooled(int64_t in, int64_t out, const Window& window) {
  Sequence sequence = Sequence().then("pool", Pool(window));
  if (in == out) return sequence;
  return std::move(sequence).then("conv", Conv2d(in, out, {})).then("norm", BatchNorm(out));
}

/// Whether it reads its state through ReLU, which the cell takes once for all its edges.
bool reads_rectified(CellOp op) {
  return op == conv_1x1 || op == conv_3x3 || op == conv_1x7_7x1 || op == separable_3x3 || op == separable_5x5;
}

/// How the cell holds its states.
std::array<Cell::Held, Cell::kStates> held_states(const Cell::Options& options) {
  using enum Cell::Held;
  std::array<Cell::Held, Cell::kStates> held;
  held.fill(as_addends);
  for (const CellEdge& edge : options.genotype->edges) {
    Cell::Held& state = held[edge.state];
    state = reads_rectified(edge.op) && state != as_it_is ? rectified : as_it_is;
  }
  if (!options.rectifies)
    for (int state : options.genotype->outputs)
      if (held[state] == rectified) held[state] = as_it_is;
  if (options.keeps_before()) held[1] = as_it_is;
  return held;
}

/// What an edge computes on its state, or on ReLU of it.
Sequence edge_module(CellOp op, int64_t in, int64_t out, int64_t stride) {
  switch (op) {
    case conv_1x1:
      return conv_norm(in, out, square(1, stride), false);
    case conv_3x3:
      return bottleneck(in, out, {square(3, stride)});
    case conv_1x7_7x1:
      return bottleneck(in, out, {window_of(1, 7, 1, stride), window_of(7, 1, stride, 1)});
    case separable_3x3:
      return separable(in, out, 3, stride);
    case separable_5x5:
      return separable(in, out, 5, stride);
    case max_pool_2x2:
      return pooled<MaxPool2d>(in, out, square(2, stride));
    case max_pool_3x3:
      return pooled<MaxPool2d>(in, out, square(3, stride));
    case average_pool_3x3:
      return pooled<AveragePool2d>(in, out, square(3, stride));
    case none:
      break;
  }
  throw UsageError("amoebanet: an edge that computes nothing has no module");
}

}  // namespace

const Genotype& normal_genotype(AmoebaNet network) { return network == AmoebaNet::d ? kNormalD : kNormalB; }
const Genotype& reduction_genotype(AmoebaNet network) { return network == AmoebaNet::d ? kReductionD : kReductionB; }

Cell::Cell(const Options& options)
    : genotype_(options.genotype),
      filters_(options.filters),
      rectifies_(options.rectifies),
      held_(held_states(options)),
      drop_path_keep_(options.drop_path_keep),
      drop_path_steps_(options.drop_path_steps) {
  last_ = add("last", relu_conv_norm(options.last, filters_, options.last_is_rectified, held_[0] == Held::rectified));
  const int64_t before = options.keeps_before() ? options.before : filters_;
  const bool rectifies_before = held_[1] == Held::rectified;
  if (options.before_is_larger && !options.keeps_before())
    before_ =
        add("before",
            rectified(options.before_is_rectified).then("reduction", FactorizedReduction(options.before, filters_, rectifies_before)));
  else if (!options.keeps_before())
    before_ = add("before", relu_conv_norm(options.before, filters_, options.before_is_rectified, rectifies_before));
  for (size_t i = 0; i < edges_.size(); ++i) {
    const CellEdge& edge = genotype_->edges[i];
    const int64_t stride = options.is_reduction && edge.state < 2 ? 2 : 1;
    edges_[i] = add_edge(static_cast<int>(i), edge, edge.state == 1 ? before : filters_, stride);
  }
}

int Cell::add_edge(int number, const CellEdge& edge, int64_t in, int64_t stride) {
  if (edge.op == none) return -1;
  return add("edge" + std::to_string(number), edge_module(edge.op, in, filters_, stride));
}

Var Cell::forward(const Call& call) const {
  std::vector<SummedVar> states{{run(call, last_, {call.inputs[0]})},
                                {before_ < 0 ? call.inputs[1] : run(call, before_, {call.inputs[1]})}};
  // The probability falls with training: early on a path that is missing teaches nothing.
  const double share = std::min(1.0, static_cast<double>(call.random.step) / static_cast<double>(drop_path_steps_));
  const double keep = call.training ? 1 - share * (1 - drop_path_keep_) : 1;
  std::map<int, Var> rectified_states;
  const auto read_by = [&](const CellEdge& edge) {
    const Var& state = states[edge.state].a;
    if (!reads_rectified(edge.op) || held_[edge.state] == Held::rectified) return state;
    const auto [found, is_new] = rectified_states.try_emplace(edge.state);
    if (is_new) found->second = relu(state);
    return found->second;
  };
  for (size_t i = 0; i < edges_.size(); i += 2) {
    Var made[2];
    for (size_t side = i; side < i + 2; ++side) {
      Var y = read_by(genotype_->edges[side]);
      if (edges_[side] >= 0) {
        // The edges draw no numbers themselves, so that the streams of parts are free. Sides count from the cell's own stream on.
        const RandomStream stream = side == 0 ? call.random : part_of(call.random, static_cast<int>(side) - 1);
        y = drop_path(run(call, edges_[side], {y}), keep, stream);
      }
      made[side - i] = y;
    }
    const SummedVar sum{made[0], made[1]};
    const Held held = held_[states.size()];
    states.push_back(held == Held::as_addends  ? sum
                     : held == Held::rectified ? SummedVar{concat_sums({sum}, true)}
                                               : SummedVar{sluice::add(sum.a, sum.b)});
  }
  std::vector<SummedVar> outputs;
  for (int state : genotype_->outputs) outputs.push_back(states[state]);
  return concat_sums(outputs, rectifies_);
}

}  // namespace sluice::models
