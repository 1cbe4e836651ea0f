#include "layers/mixture_of_experts.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/cast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/gather.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/select.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/sort.h"
#include "autograd/ops/views.h"
#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/cumsum.h"
#include "core/ops/one_hot.h"
#include "core/ops/ramp.h"

namespace sluice::layers {

namespace {

/// The extents of one call. Slots are the places that experts have for tokens; choices come as [samples, chosen, tokens].
struct Routes {
  int64_t samples, tokens, experts, chosen, capacity;

  int64_t choices() const { return chosen * tokens; }  ///< of a sample
  int64_t slots() const { return experts * capacity; }
};

/// The expert of each choice, i64 [samples, choices], and its number among those of its sample that chose this expert.
struct Queue {
  Tensor experts, places, is_kept;
};

Queue queue_of(const Routes& routes, const Tensor& indices) {
  const Tensor experts = indices.permute({0, 2, 1}).contiguous().reshape({routes.samples, routes.choices()});
  const Tensor counts = cumsum(one_hot(experts, routes.experts), 1);
  const Tensor numbers = gather(counts, 2, experts.unsqueeze(2)).reshape(experts.shape());
  const Tensor places = sub(cast(numbers, DType::i64), 1);
  return {experts, places, less(places, static_cast<double>(routes.capacity))};
}

/// 0, step, ... for each sample, i64 [samples, 1].
Tensor of_each_sample(const Routes& routes, int64_t step, const DevicePtr& device) {
  const auto end = static_cast<double>(routes.samples * step);
  return arange(0, end, static_cast<double>(step), DType::i64, device).reshape({routes.samples, 1});
}

/// By slot [experts, samples, capacity]: which row of all tokens it reads. One that stays empty reads its sample's first token; nobody reads
/// what comes of it.
Tensor rows_of_slots(const Routes& routes, const Queue& queue) {
  const DevicePtr device = queue.experts.device_ptr();
  const Tensor slots = add(mul(queue.experts, static_cast<double>(routes.capacity)), queue.places);
  const Tensor targets = where(queue.is_kept, slots, static_cast<double>(routes.slots()));  // one past the last for what is dropped
  const Tensor numbers = arange(1, static_cast<double>(routes.tokens + 1), 1, DType::f64, device);
  const Tensor holders = numbers.expand({routes.samples, routes.chosen, routes.tokens}).contiguous().reshape(targets.shape());
  const Tensor held = scatter_add(zeros({routes.samples, routes.slots() + 1}, DType::f64, device), 1, targets, holders);
  const Tensor tokens = clamp_min(sub(held.slice(1, 0, routes.slots()), 1), 0);
  const Tensor rows = add(cast(tokens, DType::i64), of_each_sample(routes, routes.tokens, device));
  return rows.reshape({routes.samples, routes.experts, routes.capacity})
      .permute({1, 0, 2})
      .contiguous()
      .reshape({routes.samples * routes.slots()});
}

/// By choice: the number of its slot [experts, samples, capacity]; 0 where it is dropped.
Tensor slots_of_choices(const Routes& routes, const Queue& queue) {
  const Tensor samples = of_each_sample(routes, 1, queue.experts.device_ptr());
  const Tensor lines = add(mul(queue.experts, static_cast<double>(routes.samples)), samples);
  const Tensor slots = add(mul(lines, static_cast<double>(routes.capacity)), queue.places);
  return where(queue.is_kept, slots, 0).reshape({routes.samples * routes.choices()});
}

/// By choice [samples, chosen, tokens]: what its expert's output is multiplied by, 0 where it is dropped.
Var weights_of_choices(const Routes& routes, const Queue& queue, const Var& probabilities) {
  Var weights = permute(probabilities, {0, 2, 1});
  if (routes.chosen > 1) weights = div(weights, sum(weights, {1}, true));
  return where(queue.is_kept.reshape(weights.shape()), weights, 0);
}

void require_chosen(const char* layer, int64_t chosen, int64_t experts) {
  require(chosen >= 1 && chosen <= experts, layer, ": needs to choose from 1 to all of its experts, got ", chosen, " of ", experts);
}

double deviation_or(double given, int64_t inputs) { return given > 0 ? given : 1 / std::sqrt(static_cast<double>(inputs)); }

}  // namespace

Router::Router(int64_t width, int64_t experts) : width_(width), experts_(experts) {
  require(width > 0 && experts > 0, "Router: needs a width and experts > 0, got ", width, " and ", experts);
}

std::vector<ParameterSpec> Router::parameters() const {
  return {{"weight", {experts_, width_}, Initializer::normal(deviation_or(0, width_))}};
}

Var Router::forward(const Call& call) const {
  const Var& weight = call.parameters[0];
  const DType dtype = compute_dtype(weight.dtype());
  return softmax(linear(cast(call.inputs[0], dtype), cast(weight, dtype), Var()));
}

Experts::Experts(const Options& options) : options_(options) {
  require(options.width > 0 && options.inner > 0 && options.experts > 0, "Experts: needs widths and experts > 0, got ", options.width, ", ",
          options.inner, " and ", options.experts);
  require_chosen("Experts", options.chosen, options.experts);
  require(options.capacity_factor > 0 && std::isfinite(options.capacity_factor), "Experts: needs a finite capacity factor > 0, got ",
          options.capacity_factor);
  require(options.standard_deviation >= 0 && options.output_deviation >= 0, "Experts: needs standard deviations >= 0 (0 = its own), got ",
          options.standard_deviation, " and ", options.output_deviation);
}

std::vector<ParameterSpec> Experts::parameters() const {
  const auto& [width, inner, experts, chosen, factor, activation, of_in, of_out] = options_;
  return {{"in", {experts, width, inner}, Initializer::normal(deviation_or(of_in, width))},
          {"out", {experts, inner, width}, Initializer::normal(deviation_or(of_out, inner))}};
}

namespace {

constexpr double kRounding = 1e-9;  // a factor such as 1.1 is no binary fraction

}  // namespace

int64_t Experts::capacity(int64_t tokens) const {
  const double share = options_.capacity_factor * static_cast<double>(options_.chosen * tokens) / static_cast<double>(options_.experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(std::min(share - kRounding, static_cast<double>(tokens)))));
}

bool Experts::drops_nothing() const {
  return options_.capacity_factor * static_cast<double>(options_.chosen) >= static_cast<double>(options_.experts) * (1 - kRounding);
}

Var Experts::forward(const Call& call) const {
  const Var &in = call.parameters[0], &out = call.parameters[1], &probabilities = call.inputs[1];
  const Var x = in_working_dtype(call.inputs[0], in);
  const int64_t width = options_.width;
  require(x.rank() == 3 && x.dim(2) == width && probabilities.shape() == Shape({x.dim(0), x.dim(1), options_.experts}),
          "Experts: needs x [batch, tokens, ", width, "] and probabilities [batch, tokens, ", options_.experts, "], got ", x.shape(),
          " and ", probabilities.shape());
  require(x.dim(1) > 0, "Experts: needs at least one token in a sample, got x ", x.shape(), "; leave samples without tokens out");
  const Routes routes{x.dim(0), x.dim(1), options_.experts, options_.chosen, capacity(x.dim(1))};
  require(!call.cache || drops_nothing(),
          "Experts: needs room for all tokens in generation, where each comes alone and none is dropped, got a capacity_factor of ",
          options_.capacity_factor,
          "; train with experts / chosen = ", static_cast<double>(options_.experts) / static_cast<double>(options_.chosen),
          ", or run whole sequences, with Predictor");
  require(routes.choices() < int64_t{1} << 24, "Experts: needs fewer than 2^24 choices a sample, got ", routes.choices());
  const SortedVar chosen = topk(probabilities, routes.chosen);
  const Queue queue = queue_of(routes, chosen.indices);
  const Var rows = reshape(x, {routes.samples * routes.tokens, width});
  const Var slots = reshape(index_select(rows, 0, rows_of_slots(routes, queue)), {routes.experts, routes.samples * routes.capacity, width});
  const Var made = matmul(unary(Activation::rule_of(options_.activation), matmul(slots, in)), out);
  const Var read =
      index_select(reshape(made, {routes.experts * routes.samples * routes.capacity, width}), 0, slots_of_choices(routes, queue));
  const Var weights = cast(weights_of_choices(routes, queue, chosen.values), x.dtype());
  const Var weighed = mul(reshape(read, {routes.samples, routes.chosen, routes.tokens, width}), unsqueeze(weights, 3));
  return routes.chosen == 1 ? squeeze(weighed, 1) : sum(weighed, {1});
}

BalanceLoss::BalanceLoss(int64_t chosen) : Loss(1), chosen_(chosen) {
  require(chosen >= 1, "BalanceLoss: needs at least one choice, got ", chosen);
}

Var BalanceLoss::losses(const Call& call) const {
  const Var& probabilities = call.inputs[0];
  require(probabilities.rank() == 3 && probabilities.dim(1) > 0,
          "BalanceLoss: needs probabilities [batch, tokens, experts] with tokens, got ", probabilities.shape());
  const int64_t experts = probabilities.dim(2);
  require_chosen("BalanceLoss", chosen_, experts);
  const Tensor choices = topk(probabilities.value(), chosen_).indices;
  const Tensor used = mean(one_hot(choices, experts, probabilities.dtype()), {1, 2});
  return scale(sum(mul(mean(probabilities, {1}), Var(used)), {1}), static_cast<double>(experts));
}

MixtureOfExperts add_mixture_of_experts(Graph& graph, const std::string& name, const Experts::Options& options, Value x) {
  const Experts experts(options);  // refuses bad options before the graph has a node more
  const Value probabilities = graph.add(name + ".router", Router(options.width, options.experts), x);
  return {graph.add(name + ".experts", experts, {x, probabilities}), probabilities};
}

}  // namespace sluice::layers
