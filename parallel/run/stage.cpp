#include "parallel/run/stage.h"

#include <algorithm>

#include "core/ops/copy.h"
#include "core/ops/padded_rows.h"
#include "core/profiler.h"
#include "core/where.h"
#include "parallel/run/divergence.h"
#include "parallel/run/run_errors.h"

namespace sluice::parallel {

std::vector<int64_t> micro_batch_bounds(int64_t samples, int micro_batches) {
  require(micro_batches >= 1 && micro_batches <= samples, "PlanOptions::micro_batches: needs a number from 1 to the ", samples,
          " samples of the mini-batch, got ", micro_batches);
  std::vector<int64_t> bounds{0};
  for (int m = 0; m < micro_batches; ++m) bounds.push_back(bounds.back() + samples / micro_batches + (m < samples % micro_batches ? 1 : 0));
  return bounds;
}

Stage::Stage(const layers::Graph& graph, const Layout& layout, const Dataflow& flow, int index, DevicePtr device, layers::Tables& tables,
             StageOptions options)
    : graph_(graph),
      topology_(layout.topology),
      flow_(flow),
      replication_(layout.replication),
      stages_(layout.partition.stage_count()),
      index_(index),
      replica_(index / stages_),
      first_(layout.partition.first_node(index % stages_)),
      end_(layout.partition.end_node(index % stages_)),
      shards_(shards_of(graph, layout.partition, index % stages_, layout.replication.replicas)),
      device_(std::move(device)),
      options_(options),
      node_parameters_(topology_.node_count()),
      node_tables_(topology_.node_count()),
      statistics_(graph, first_, end_, device_, options_.averages),
      last_use_(topology_.value_count(), -1),
      last_recompute_use_(topology_.value_count(), -1),
      loss_node_(graph.has_loss() ? graph.loss_node() : -1) {
  for (const auto& tied : topology_.tied) {
    const auto found = std::ranges::find(graph.parameters(), tied.parameter, &layers::Graph::Parameter::name);
    tied_parameters_.push_back(static_cast<int>(found - graph.parameters().begin()));
    auto& parts = tied_parts_.emplace_back();
    for (const Shard& shard : shards_of(graph, layout.partition, layout.partition.stage_of(tied.nodes.front()), replication_.replicas))
      parts.push_back(elements_in(shard, tied_parameters_.back()));
  }
  for (int node = first_; node < end_; ++node)
    for (int value : topology_.nodes[node].inputs) {
      last_use_[value] = node;
      if (flow.nodes[node].recomputed) last_recompute_use_[value] = node;
    }

  for (int node = first_; node < end_; ++node) {
    WhereScope scope({graph.nodes()[node].name.c_str(), index_, -1});
    node_tables_[node] = tables.of(*graph.nodes()[node].module);
    for (int parameter : graph.nodes()[node].parameters) {
      const auto [place, is_new] = positions_.try_emplace(parameter, parameters_.size());
      if (is_new) parameters_.push_back(make_parameter(parameter));
      node_parameters_[node].push_back(static_cast<int>(place->second));
    }
  }
  if (replication_.replicas > 1) make_packings();
}

namespace {

/// A device that computes has no use for samples without elements, nor one that only counts for elements.
void require_samples_for(const Device& device, const std::string& input, const Tensor& samples) {
  const bool counts = device.kind() == DeviceKind::meta;
  require((samples.device().kind() == DeviceKind::meta) == counts, "batch: input '", input, "' needs samples ",
          counts ? "on a meta device, as " : "in memory, as ", device.name(), counts ? " only counts" : " computes", ", got ", samples,
          counts ? "; give zeros(shape, dtype, device), or train on devices that compute, or ask parallel::predict"
                 : "; load them to the host");
}

}  // namespace

Tensor Stage::load(const RunContext& run, int micro_batch, int value) {
  const auto& input = graph_.inputs()[value];
  const bool stays = run.sequences && value != run.sequences->tokens_input;
  if (stays)
    if (const auto& kept = group_of(run, micro_batch)->inputs; kept.contains(value)) return kept.at(value);
  const int64_t first = run.first_sample[micro_batch], count = run.first_sample[micro_batch + 1] - first;
  // No plan counts the copies that ops make of strided tensors. Mini-batches of sequences are counted as long as they may get.
  const Tensor loaded = parallel::load(*run.batch, input.name, first, count).contiguous();
  if (!run.sequences) require_planned_shape(run.shape, input.name, first, loaded);
  graph_.check_samples(value, loaded);
  require_samples_for(*device_, input.name, loaded);
  if (run.is_watched && !is_finite(loaded))
    throw DivergenceError(join("input '", input.name, "', which the mini-batch gives,", where().text(), " on ", device_->name()));
  const Tensor here = loaded.to(device_);
  if (stays) group_of(run, micro_batch)->inputs[value] = here;
  return here;
}

Stage::Group* Stage::group_of(const RunContext& run, int micro_batch) {
  return run.sequences ? &sequences_.at(run.sequences->groups[micro_batch]) : nullptr;
}

void Stage::continue_sequences(const RunContext& run, int micro_batch) {
  const Sequences& all = *run.sequences;
  const int64_t length = all.lengths[micro_batch];
  const int number = all.groups[micro_batch];
  if (length == 0) {
    sequences_.erase(number);
    for (int node = first_; node < end_; ++node) sequences_[number].caches[node].capacity = all.capacity;
  }
  require(sequences_.contains(number), "sequences: group ", number, " is not there; begin it");
  auto& caches = sequences_[number].caches;
  const bool counts_only = device_->kind() == DeviceKind::meta;
  if (counts_only)
    for (auto& [node, cache] : caches) cache.set_length(length);
  if (all.parents.empty() || all.parents[micro_batch].empty()) return;
  const auto& rows = all.parents[micro_batch];
  const Shape shape{static_cast<int64_t>(rows.size())};
  const Tensor parents =
      counts_only ? empty(shape, DType::i32, device_) : tensor_of({rows.begin(), rows.end()}, shape, DType::i32).to(device_);
  for (auto& [node, cache] : caches) cache.select_rows(parents);
}

void Stage::forward(const RunContext& run, int micro_batch) {
  run_ = &run;
  if (run.sequences) continue_sequences(run, micro_batch);
  run_nodes(run, micro_batch, false);
}

void Stage::recompute(const RunContext& run, int micro_batch) { run_nodes(run, micro_batch, true); }

namespace {

/// Graph::output refuses others where it knows their shapes.
void require_samples(const layers::Graph::Node& node, const Tensor& output, int64_t samples) {
  require(output.rank() > 0 && output.dim(0) == samples, "output: needs a row of '", node.name, "' for each of ", samples, " samples, got ",
          output.shape(), "; outputs of micro-batches are joined along their first axis");
}

}  // namespace

/// Runs all nodes, or (again) the recomputed ones. `live` holds the values that a later node of this pass still reads. A view is copied
/// as it is where a transfer takes it to its reader: products of a view have other bits than those of its copy.
void Stage::run_nodes(const RunContext& run, int micro_batch, bool again) {
  MicroBatch& state = micro_batches_[micro_batch];
  const auto& last_use = again ? last_recompute_use_ : last_use_;
  std::map<int, Tensor> live;
  for (int node = first_; node < end_; ++node) {
    const NodeFlow& flow = flow_.nodes[node];
    if (again && !flow.recomputed) continue;
    require<StoppedError>(!run.stop || !run.stop(), "stopped, as was asked for");
    WhereScope scope({graph_.nodes()[node].name.c_str(), index_, micro_batch});
    const ProfilerRange range(*device_, graph_.nodes()[node].name);
    for (int value : topology_.nodes[node].inputs) {
      if (live.contains(value)) continue;
      if (const auto kept = state.kept.find(value); kept != state.kept.end())
        live[value] = kept->second;
      else if (const auto received = state.received.find(value); received != state.received.end())
        live[value] = received->second;
      else
        live[value] = load(run, micro_batch, value);
    }
    Tensor y = handed_on(run_node(run, micro_batch, node, live, again));
    watch("the output", y);
    const int made = topology_.value_of(node);
    const bool kept_for_recompute = run.training && !again && last_recompute_use_[made] >= 0 && !flow.recomputed;
    if (kept_for_recompute) state.kept[made] = y;
    if (!again && flow.sent) state.to_send[made] = y.dense();
    if (!again && node == loss_node_) losses_[micro_batch] = y;
    if (run.keeps_output && std::ranges::count(graph_.output_nodes(), node) > 0) {
      require_samples(graph_.nodes()[node], y, run.first_sample[micro_batch + 1] - run.first_sample[micro_batch]);
      outputs_[node][micro_batch] = run.sequences ? layers::last_token(y) : y;
    }
    if (last_use[made] >= 0) live[made] = std::move(y);
    for (int value : topology_.nodes[node].inputs) {
      const bool loaded_here = topology_.node_of(value) < 0;
      if (run.training && !again && loaded_here && last_recompute_use_[value] >= 0 && live.contains(value)) state.kept[value] = live[value];
      if (last_use[value] == node) live.erase(value);
    }
  }
  if (again) state.kept.clear();
}

Tensor Stage::run_node(const RunContext& run, int micro_batch, int node, std::map<int, Tensor>& live, bool again) {
  const auto& description = graph_.nodes()[node];
  const NodeFlow& flow = flow_.nodes[node];
  const bool recorded = run.training && flow.recorded && again == flow.recomputed;
  Tape tape;
  layers::Call call;
  for (int value : description.inputs) {
    const bool leaf = recorded && topology_.contributes(node, value);
    call.inputs.push_back(leaf ? Var::input(live.at(value)) : Var(live.at(value)));
    tape.inputs.push_back(call.inputs.back().node());
  }
  call.parameters.reserve(node_parameters_[node].size());
  for (int position : node_parameters_[node]) {
    const Tensor& value = shown(parameters_[position]);
    call.parameters.push_back(recorded ? graph_.parameters()[parameters_[position].index].leaf(value) : Var(value));
    tape.parameters.push_back(call.parameters.back().node());
  }
  if (Group* group = group_of(run, micro_batch)) {
    call.cache = &group->caches.at(node);
    call.first_position = run.sequences->lengths[micro_batch];
    if (node == graph_.output_node()) keep_last_token(call);
  }
  call.tables = node_tables_[node];
  call.random = {random_key(options_.seed, description.name), run.step, 0, static_cast<uint32_t>(run.first_sample[micro_batch])};
  if (!run.sequences) call.random.samples = static_cast<uint32_t>(run.first_sample[micro_batch + 1] - run.first_sample[micro_batch]);
  call.training = run.training;
  bool is_scaled = node != loss_node_ || !run.training;
  call.loss_scale = {run.loss_scale, is_scaled};
  if (node == loss_node_) call.loss_weights = run.loss_weights;
  if (!run.training) call.statistics = statistics_.running_of(node, shows_averages_);
  std::vector<std::vector<BatchMoments>> observed(run.training && !again ? description.statistics.size() : 0);
  call.observed = observed;
  const Var y = located([&] {
    Var made = description.module->forward(call);
    layers::require_made_here(*description.module, made, *device_);
    require(is_scaled,
            "loss: needs a module that multiplies its weighted sum by Call::loss_scale, or each micro-batch counts like a mini-batch; "
            "multiply by it");
    return made;
  });
  statistics_.observe(node, micro_batch, std::move(observed));
  tape.root = y.node();
  if (recorded && tape.root) micro_batches_[micro_batch].tapes[node] = std::move(tape);
  return y.value();
}

void Stage::watch(const char* what, const Tensor& made) const {
  if (run_->is_watched && made.defined() && !is_finite(made)) throw DivergenceError(join(what, where().text(), " on ", device_->name()));
}

namespace {

/// The element of a key, undefined where there is none.
template <class Key>
Tensor found_or_undefined(const std::map<Key, Tensor>& tensors, const Key& key) {
  const auto found = tensors.find(key);
  return found == tensors.end() ? Tensor() : found->second;
}

}  // namespace

Tensor Stage::outgoing(const Transfer& transfer, int micro_batch) const {
  switch (transfer.payload) {
    case Payload::activation:
      return micro_batches_.at(micro_batch).to_send.at(transfer.value);
    case Payload::gradient:
      return found_or_undefined(micro_batches_.at(micro_batch).contributions, {transfer.value, transfer.consumer});
    case Payload::gradient_shard:
      return found_or_undefined(packed_, {transfer.from, transfer.to});
    case Payload::gradient_sum:
      return pack_sums();
    case Payload::weight_shard:
      return pack_weights();
    case Payload::statistics:
      return statistics_.observed();
    default: {
      const Tensor part = tied_part(transfer);
      return part.defined() ? part.dense() : part;
    }
  }
}

void Stage::incoming(const Transfer& transfer, int micro_batch, Tensor tensor) {
  switch (transfer.payload) {
    case Payload::activation:
      micro_batches_[micro_batch].received[transfer.value] = std::move(tensor);
      return;
    case Payload::gradient:
      micro_batches_[micro_batch].gradients[{transfer.value, transfer.consumer}] = std::move(tensor);
      return;
    case Payload::tied_gradient:
      tied_received_[{transfer.value, transfer.consumer, replica_of(transfer.from)}] = std::move(tensor);
      return;
    case Payload::gradient_shard:
      packed_[{transfer.from, transfer.to}] = std::move(tensor);
      return;
    case Payload::gradient_sum:
      return unpack_sums(replica_of(transfer.from), tensor);
    case Payload::weight_shard:
      return unpack_weights(replica_of(transfer.from), tensor);
    case Payload::statistics:
      return statistics_.add(tensor, part_of(run_->micro_batches(), replica_of(transfer.from), replication_.replicas), run_->first_sample);
    default:
      if (const Tensor place = tied_part(transfer); place.defined()) copy(tensor, place);
  }
}

void Stage::free(const Buffer& buffer) {
  if (buffer.kind == Buffer::Kind::shard) packed_.erase({buffer.value, buffer.consumer});
  const auto found = micro_batches_.find(buffer.micro_batch);
  if (found == micro_batches_.end()) return;
  MicroBatch& state = found->second;
  if (buffer.kind == Buffer::Kind::tape) {
    state.tapes.clear();
    state.deferred.clear();
  } else if (buffer.kind == Buffer::Kind::value) {
    state.received.erase(buffer.value);
    state.to_send.erase(buffer.value);
  } else {
    state.gradients.erase({buffer.value, buffer.consumer});
    state.contributions.erase({buffer.value, buffer.consumer});
  }
}

void Stage::reset() {
  micro_batches_.clear();
  tied_received_.clear();
  packed_.clear();
  blocks_.clear();
  losses_.clear();
  outputs_.clear();
  statistics_.forget();
  drop_gradients();
  run_ = nullptr;
}

}  // namespace sluice::parallel
