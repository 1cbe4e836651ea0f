#include "models/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/tables.h"

namespace sluice::models {

namespace {

/// Nodes on which the output depends, by node.
std::vector<bool> needed_nodes(const layers::Graph& graph) {
  std::vector<bool> needed(graph.nodes().size(), false);
  needed[graph.output_node()] = true;
  for (int node = graph.output_node(); node >= 0; --node)
    if (needed[node])
      for (int value : graph.nodes()[node].inputs)
        if (graph.node_of(value) >= 0) needed[graph.node_of(value)] = true;
  return needed;
}

}  // namespace

Generator::Generator(const layers::Graph& graph, std::map<std::string, Tensor> parameters, int64_t context)
    : graph_(graph), parameters_(std::move(parameters)), context_(context) {
  const auto needed = needed_nodes(graph_);
  for (size_t node = 0; node < needed.size(); ++node)
    for (int value : graph_.nodes()[node].inputs)
      require(!needed[node] || value == 0 || graph_.node_of(value) >= 0,
              "generate: needs an output that depends on the first input alone, node '", graph_.nodes()[node].name, "' reads input '",
              graph_.node_of(value) < 0 ? graph_.inputs()[value].name : "", "' too");
  require(!graph_.parameters().empty(), "generate: needs a model with parameters, which say on what device it runs");
  for (const auto& parameter : graph_.parameters()) {
    const auto found = parameters_.find(parameter.name);
    require(found != parameters_.end(), "generate: needs parameter '", parameter.name, "' of the model; the checkpoint has none");
    require(found->second.shape() == parameter.spec.shape, "generate: parameter '", parameter.name, "' needs shape ", parameter.spec.shape,
            ", got ", found->second.shape());
  }
  require(!parameters_.empty(), "generate: needs a model with parameters");
  const Tensor& any = parameters_.begin()->second;
  layers::Tables tables(any.device_ptr(), any.dtype());
  for (const auto& node : graph_.nodes()) tables_.push_back(tables.of(*node.module));
}

void Generator::generate(const std::vector<int32_t>& prompt, int64_t count, const SamplingOptions& sampling,
                         const std::function<bool(int32_t)>& emit) {
  require(!prompt.empty(), "generate: needs a prompt of at least one token");
  require(count >= 0 && count <= context_ - static_cast<int64_t>(prompt.size()), "generate: needs prompt + new tokens <= the context of ",
          context_, ", got ", prompt.size(), " + ", count, "; shorten the prompt or ask for fewer tokens");
  start();
  std::vector<int32_t> pending = prompt;
  const uint64_t key = random_key(sampling.seed, "generate");
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})[0];
    const int32_t token = sample_token(next_logits(pending), sampling, uniform_from(word));
    if (!emit(token)) return;
    pending = {token};
  }
}

void Generator::start() {
  position_ = 0;
  caches_.assign(graph_.nodes().size(), {context_});
}

std::vector<double> Generator::next_logits(const std::vector<int32_t>& tokens) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  const auto needed = needed_nodes(graph_);
  std::vector<Tensor> values(graph_.inputs().size() + graph_.nodes().size());
  values[0] = tensor_of({tokens.begin(), tokens.end()}, {1, count}, DType::i32, parameters_.begin()->second.device_ptr());
  for (int node = 0; node <= graph_.output_node(); ++node) {
    if (!needed[node]) continue;
    const auto& description = graph_.nodes()[node];
    layers::Call call;
    for (int value : description.inputs) call.inputs.push_back(Var(values[value]));
    for (int parameter : description.parameters) call.parameters.push_back(Var(parameters_.at(graph_.parameters()[parameter].name)));
    call.tables = tables_[node];
    call.training = false;
    call.first_position = position_;
    call.cache = &caches_[node];
    Tensor y = description.module->forward(call).value();
    if (node + 1 == graph_.output_node()) y = y.slice(1, count - 1, count).contiguous();  // only the last token's logits are wanted
    values[graph_.value_of(node)] = y;
  }
  position_ += count;
  const Tensor logits = values[graph_.value_of(graph_.output_node())];
  return logits.slice(1, logits.dim(1) - 1, logits.dim(1)).to_vector();
}

namespace {

/// Sets all but the k largest to minus infinity.
void keep_top_k(std::vector<double>& logits, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(logits.size())) return;
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::nth_element(order, order.begin() + k,
                           [&](size_t a, size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  for (size_t i = static_cast<size_t>(k); i < order.size(); ++i) logits[order[i]] = -INFINITY;
}

std::vector<double> softmax_of(const std::vector<double>& logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> weights(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += weights[i] = std::exp(logits[i] - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Keeps the smallest set of most likely tokens whose probability reaches p; the others get zero.
void keep_top_p(std::vector<double>& weights, double p) {
  if (p >= 1) return;
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  double sum = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (rank > 0 && sum >= p) weights[order[rank]] = 0;
    sum += weights[order[rank]];
  }
}

}  // namespace

int32_t sample_token(std::vector<double> logits, const SamplingOptions& options, double random) {
  require(!logits.empty(), "sample: needs at least one logit");
  require(options.temperature >= 0, "temperature: needs a number >= 0, got ", options.temperature);
  require(options.top_k >= 0, "top-k: needs a number >= 0 (0 = all), got ", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, "top-p: needs a number in (0, 1], got ", options.top_p);
  if (options.temperature == 0) return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  for (double& logit : logits) logit /= options.temperature;
  keep_top_k(logits, options.top_k);
  std::vector<double> weights = softmax_of(logits);
  keep_top_p(weights, options.top_p);
  double rest = random * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    if ((rest -= weights[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(std::ranges::max_element(weights) - weights.begin());
}

}  // namespace sluice::models
