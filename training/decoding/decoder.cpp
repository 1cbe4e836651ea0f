#include "training/decoding/decoder.h"

#include <algorithm>
#include <set>

#include "core/ops/copy.h"
#include "training/decoding/cache_check.h"

namespace sluice::training {

namespace {

/// By value of the graph: the tokens reach it.
std::vector<bool> reached_by(const layers::Graph& graph, int tokens) {
  std::vector<bool> reached(graph.inputs().size(), false);
  reached[static_cast<size_t>(tokens)] = true;
  for (const auto& node : graph.nodes())
    reached.push_back(std::ranges::any_of(node.inputs, [&](int value) { return reached[static_cast<size_t>(value)]; }));
  return reached;
}

/// Values of nodes that the tokens do not reach, which nodes that they reach read.
std::set<int> context_values(const layers::Graph& graph, int tokens) {
  const auto reached = reached_by(graph, tokens);
  std::set<int> context;
  for (size_t node = 0; node < graph.nodes().size(); ++node)
    for (const int value : graph.nodes()[node].inputs)
      if (reached[static_cast<size_t>(graph.value_of(static_cast<int>(node)))] && !reached[static_cast<size_t>(value)] &&
          graph.node_of(value) >= 0)
        context.insert(value);
  return context;
}

int input_named(const layers::Graph& graph, const std::string& name) {
  const auto& inputs = graph.inputs();
  const auto found = std::ranges::find(inputs, name, &layers::Graph::Input::name);
  require(found != inputs.end(), "decoder: needs an output that depends on input '", name, "'; name the input of the tokens");
  return static_cast<int>(found - inputs.begin());
}

const Tensor& input_of(const Decoder::Inputs& given, const std::string& name) {
  const auto found = given.find(name);
  require(found != given.end(), "decoder: needs input '", name, "', got ", given.size(), " others");
  return found->second;
}

/// Those of `given` that the graph has.
Batch batch_for(const layers::Graph& graph, const Decoder::Inputs& given) {
  Decoder::Inputs inputs;
  for (const auto& input : graph.inputs()) inputs[input.name] = input_of(given, input.name);
  return batch_of(std::move(inputs));
}

/// The inputs of the whole model that are behind one of the step's: itself, or those of the node that it is the value of.
std::string inputs_behind(const layers::Graph& whole, const std::set<int>& context, const std::string& name) {
  std::string names;
  for (const int value : context) {
    if (whole.nodes()[static_cast<size_t>(whole.node_of(value))].name != name) continue;
    const layers::Graph behind = whole.upstream_of(value);
    for (const auto& input : behind.inputs()) names += (names.empty() ? "'" : "', '") + input.name;
  }
  return (names.empty() ? "'" + name : names) + "'";
}

}  // namespace

Decoder::Decoder(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
                 const DecoderOptions& options)
    : options_(options) {
  require(options.rows >= 1 && options.groups >= 1 && options.capacity >= 0,
          "DecoderOptions: needs rows and groups >= 1 and a capacity >= 0, got ", options.rows, ", ", options.groups, " and ",
          options.capacity);
  const layers::Graph whole = graph.upstream_of(graph.value_of(graph.output_node()));
  const int tokens = input_named(whole, options.tokens), output = whole.value_of(whole.output_node());
  const auto& declared = whole.inputs()[static_cast<size_t>(tokens)].sample_shape;
  require(options.capacity > 0 || (declared && declared->rank() == 1), "DecoderOptions::capacity: needs a number of tokens, as input '",
          options.tokens, "' is declared without");
  if (options.capacity == 0) options_.capacity = (*declared)[0];
  const auto context = context_values(whole, tokens);
  const layers::Graph step = whole.upstream_of(output, context);
  tokens_input_ = input_named(step, options.tokens);
  const TokenModel model{step, weights, tokens_input_, declared && declared->rank() == 1 ? (*declared)[0] : 0, options_.capacity};
  if (const auto found = per_token_input(model))
    throw UsageError(
        join("decoder: ", inputs_behind(whole, context, found->input), ", which node '", found->node,
             "' reads beside the tokens, has something for each of the ", model.declared,
             " tokens; these come one after the other, and each would read all of it. Make it of the tokens within the model, or "
             "run the model on whole sequences, with Predictor"));
  parallel::InferenceOptions of_step = options.pipeline;
  of_step.samples = options.rows;
  step_ = std::make_unique<parallel::InferencePipeline>(step, devices, weights, of_step);
  of_step.stages.clear();
  for (const int value : context)
    context_[whole.nodes()[static_cast<size_t>(whole.node_of(value))].name] =
        std::make_unique<parallel::InferencePipeline>(whole.upstream_of(value), devices, weights, of_step);
  share_devices();
  require_same_with_caches(model);
}

namespace {

/// By device; a part with fewer stages holds nothing on the last ones.
void add(std::vector<int64_t>& bytes, const std::vector<int64_t>& more) {
  bytes.resize(std::max(bytes.size(), more.size()));
  for (size_t device = 0; device < more.size(); ++device) bytes[device] += more[device];
}

void hold_beside(parallel::InferencePipeline& pipeline, std::vector<int64_t> bytes) {
  bytes.resize(pipeline.devices().size());
  pipeline.hold_beside(std::move(bytes));
}

}  // namespace

/// Weights are always there; the caches are there when an encoder runs for a group that begins.
void Decoder::share_devices() {
  std::vector<int64_t> of_context;
  for (const auto& [name, pipeline] : context_) add(of_context, pipeline->kept_bytes());
  hold_beside(*step_, of_context);
  const auto of_step = step_->expect_sequences(options_.rows, {tokens_input_, options_.capacity}, options_.groups);
  for (const auto& [name, pipeline] : context_) {
    std::vector<int64_t> others = of_step;
    for (const auto& [other, beside] : context_)
      if (other != name) add(others, beside->kept_bytes());
    hold_beside(*pipeline, std::move(others));
  }
}

std::vector<int64_t> Decoder::predicted_peak_bytes() const {
  std::vector<int64_t> most = step_->predicted_peak_bytes();
  for (const auto& [name, pipeline] : context_) {
    const auto& peaks = pipeline->predicted_peak_bytes();
    most.resize(std::max(most.size(), peaks.size()));
    std::ranges::transform(peaks, most, most.begin(), std::ranges::max);
  }
  return most;
}

Decoder::Inputs Decoder::encode(const Inputs& inputs) {
  Inputs made;
  for (const auto& [name, pipeline] : context_) made[name] = cast(pipeline->run(batch_for(pipeline->graph(), inputs)), DType::f32);
  for (const auto& input : step_->graph().inputs())
    if (input.name != options_.tokens && !made.contains(input.name)) made[input.name] = input_of(inputs, input.name);
  return made;
}

void Decoder::check(std::span<const Feed> feeds) const {
  require(!feeds.empty(), "decoder: needs the next tokens of at least one group, got none");
  std::set<int> groups;
  for (const Feed& feed : feeds) {
    require(feed.group >= 0 && feed.group < options_.groups && groups.insert(feed.group).second,
            "decoder: needs different groups from 0 to ", options_.groups - 1, ", got ", feed.group);
    require(feed.begins_with || lengths_.contains(feed.group), "decoder: group ", feed.group, " has not begun; give what it begins with");
    const Shape shape{options_.rows, feeds[0].tokens.defined() && feeds[0].tokens.rank() == 2 ? feeds[0].tokens.dim(1) : 1};
    require(feed.tokens.defined() && feed.tokens.shape() == shape && shape[1] >= 1, "decoder: needs tokens ", shape,
            " for each group, got ", feed.tokens.defined() ? feed.tokens.shape() : Shape());
  }
}

Tensor Decoder::advance(std::span<const Feed> feeds) {
  check(feeds);
  parallel::Sequences sequences{tokens_input_, options_.capacity};
  for (const Feed& feed : feeds) {
    sequences.groups.push_back(feed.group);
    sequences.lengths.push_back(feed.begins_with ? 0 : lengths_.at(feed.group));
    sequences.parents.push_back(feed.parents);
  }
  const int64_t rows = options_.rows;
  const Batch batch{rows * static_cast<int64_t>(feeds.size()), [&](const std::string& input, int64_t first, int64_t count) {
                      const Feed& feed = feeds[static_cast<size_t>(first / rows)];
                      if (input == options_.tokens) return feed.tokens.slice(0, 0, count);
                      require(feed.begins_with && feed.begins_with->contains(input), "decoder: group ", feed.group, " needs input '", input,
                              "' to begin with");
                      return feed.begins_with->at(input).slice(0, 0, count);
                    }};
  Tensor logits;
  try {
    logits = step_->run(batch, sequences, options_.groups);
  } catch (...) {
    lengths_.clear();
    throw;
  }
  for (size_t i = 0; i < feeds.size(); ++i) lengths_[feeds[i].group] = sequences.lengths[i] + feeds[i].tokens.dim(1);
  return cast(logits, DType::f32).reshape({batch.samples, logits.elements() / batch.samples});
}

void Decoder::end(int group) {
  lengths_.erase(group);
  step_->end_sequences(group);
}

}  // namespace sluice::training
