// How the gradients of a stage's parameters are added up: over fold blocks, over replicas, and over the uses of tied parameters; and what
// the replicas of the stage send each other for it.
#include <algorithm>

#include "core/ops/concat.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

namespace {

/// Of undefined ones that of the other.
Tensor sum_of(Tensor a, Tensor b) {
  if (b.defined()) add_part(a, std::move(b));
  return a;
}

/// Pieces in a packed tensor begin at multiples of so many elements, as kernels read them fastest.
constexpr int64_t kAlignment = 16;

int64_t aligned(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void throw_no_gradient(const layers::Graph::Parameter& parameter, const std::string& node, int replica) {
  const bool is_tied = parameter.nodes.size() > 1;
  throw UsageError(join("step: parameter '", parameter.name, "' has no gradient of node '", node, "'",
                        is_tied ? ", to which it is tied," : "", " in the micro-batches of replica ", replica,
                        "; with replicas the loss of each one has to depend on every use of a parameter: let the node use it in every ",
                        "micro-batch, ", is_tied ? "remove the tie, " : "", "or train with one replica"));
}

}  // namespace

/// What is there of a block becomes one part of the tree; one that is empty, or left out by the modules, counts as a part all the same.
void Stage::end_block(int micro_batch) {
  const int blocks = replication_.fold_blocks, all = run_->micro_batches();
  const int block = part_with(micro_batch, all, blocks), own = blocks / replication_.replicas;
  if (own == 1 || micro_batch + 1 < part_of(all, block, blocks).end) return;
  const int first = replica_ * own;
  const bool is_last = micro_batch + 1 == part_of(all, replica_, replication_.replicas).end;
  const int next = is_last ? first + own : part_with(micro_batch + 1, all, blocks);
  for (size_t position = 0; position < parameters_.size(); ++position)
    for (const int node : parameters_[position].uses) {
      auto& tree = blocks_[{position, node}];
      if (tree.empty())
        for (int empty = first; empty < block; ++empty) tree.push(Tensor(), sum_of);
      auto sum = parameters_[position].gradients.extract(node);
      tree.push(sum.empty() ? Tensor() : std::move(sum.mapped()), sum_of);
      for (int empty = block + 1; empty < next; ++empty) tree.push(Tensor(), sum_of);
      if (!is_last) continue;
      if (Tensor all_blocks = tree.take(sum_of); all_blocks.defined()) parameters_[position].gradients[node] = std::move(all_blocks);
    }
}

/// The nodes of this stage that make gradients of a parameter, ascending.
std::vector<int> Stage::uses_here(int parameter) const {
  const auto& description = graph_.parameters()[parameter];
  std::vector<int> uses;
  if (description.frozen) return uses;
  for (const int node : description.nodes)
    if (is_here(node)) uses.push_back(node);
  if (const auto tied = std::ranges::find(tied_parameters_, parameter); tied != tied_parameters_.end())
    std::erase_if(uses, [&](int node) { return !topology_.contributes(node, topology_.tied[tied - tied_parameters_.begin()]); });
  return uses;
}

/// `by_use`: a piece for each of the uses here, else one a parameter.
Stage::Packing Stage::packing(const Shard& shard, bool by_use) const {
  Packing packing;
  for (const auto& [parameter, elements] : shard) {
    const size_t position = position_of(parameter);
    const auto uses = by_use ? parameters_[position].uses : std::vector{graph_.parameters()[parameter].nodes.front()};
    for (const int node : uses) packing.pieces.push_back({position, node, elements, aligned(packing.elements())});
  }
  return packing;
}

void Stage::make_packings() {
  for (const Shard& shard : shards_) {
    gradient_packings_.push_back(packing(shard, true));
    weight_packings_.push_back(packing(shard, false));
  }
}

/// Between the pieces there are zeros, so that what is sent is the same bytes every time.
Tensor Stage::room(const Packing& packing, DType dtype) const {
  if (packing.pieces.empty()) return {};
  int64_t filled = 0;
  for (const PackedPiece& piece : packing.pieces) filled += piece.elements.count;
  const Shape shape{packing.elements()};
  return filled == packing.elements() ? empty(shape, dtype, device_) : zeros(shape, dtype, device_);
}

/// Frees each gradient when the last of its elements is in a shard, so that both are never there as a whole.
void Stage::shard_gradients() {
  for (int to = 0; to < replication_.replicas; ++to) {
    const Packing& packing = gradient_packings_[to];
    const Tensor packed = room(packing, DType::f32);
    for (const PackedPiece& piece : packing.pieces) {
      Parameter& parameter = parameters_[piece.position];
      const auto found = parameter.gradients.find(piece.node);
      if (found == parameter.gradients.end() || !found->second.defined())
        throw_no_gradient(graph_.parameters()[parameter.index], graph_.nodes()[piece.node].name, replica_);
      copy(elements_of(found->second, piece.elements), piece.in(packed));
      if (piece.elements.end() == whole(parameter.index).end()) parameter.gradients.erase(found);
    }
    if (packed.defined()) packed_[{index_, to * stages_ + index_ % stages_}] = packed;
  }
}

void Stage::fold_shards() {
  const Packing& packing = gradient_packings_[replica_];
  if (packing.pieces.empty()) return;
  TreeSum<Tensor> replicas;
  for (int from = 0; from < replication_.replicas; ++from)
    replicas.push(std::move(packed_.at({from * stages_ + index_ % stages_, index_})), sum_of);
  const Tensor sum = replicas.take(sum_of);
  for (const PackedPiece& piece : packing.pieces) parameters_[piece.position].gradients[piece.node] = piece.in(sum);
}

/// The elements of a tied parameter of which this replica adds up, from what the others sent of a use on another stage.
Tensor Stage::use_of_all_replicas(int tied, int node) {
  TreeSum<Tensor> replicas;
  for (int from = 0; from < replication_.replicas; ++from) replicas.push(std::move(tied_received_[{tied, node, from}]), sum_of);
  return replicas.take(sum_of);
}

void Stage::reduce_tied(int tied) {
  const auto& description = topology_.tied[tied];
  Parameter& parameter = parameters_[position_of(tied_parameters_[tied])];
  Tensor sum;
  for (const int node : flow_.tied_uses[tied]) {
    Tensor part = is_here(node) ? std::move(parameter.gradients[node]) : use_of_all_replicas(tied, node);
    if (part.defined()) add_part(sum, std::move(part));
  }
  std::erase_if(tied_received_, [&](const auto& received) { return std::get<0>(received.first) == tied; });
  parameter.gradients.clear();
  parameter.gradients[description.nodes.front()] = std::move(sum);
}

Tensor Stage::gradient(const ShardPiece& piece) const {
  const Parameter& parameter = parameters_[position_of(piece.parameter)];
  require(parameter.gradients.size() == 1 && parameter.gradients.begin()->second.defined(), "step: parameter '",
          graph_.parameters()[piece.parameter].name, "' has no gradient; the loss does not depend on it");
  return parameter.gradients.begin()->second;
}

/// Without a sharded optimizer the pieces that the replicas added up become one tensor again.
Tensor Stage::gradient(const Parameter& parameter) const {
  const Shape& shape = parameter.master.shape();
  const ShardPiece own{parameter.index, parameter.shard};
  if (parameter.shard == parameter.range) return gradient(own).reshape(shape);
  std::map<int64_t, Tensor> pieces = parameter.sums;
  if (parameter.shard.count > 0) pieces[parameter.shard.first] = gradient(own);
  if (pieces.size() == 1) return pieces.begin()->second.reshape(shape);
  std::vector<Tensor> parts;
  for (const auto& [first, piece] : pieces) parts.push_back(piece);
  return concat(parts, 0).reshape(shape);
}

Tensor Stage::pack_sums() const {
  const Packing& packing = weight_packings_[replica_];
  const Tensor packed = room(packing, DType::f32);
  for (const PackedPiece& piece : packing.pieces)
    copy(gradient(ShardPiece{parameters_[piece.position].index, piece.elements}), piece.in(packed));
  return packed;
}

void Stage::unpack_sums(int replica, const Tensor& packed) {
  for (const PackedPiece& piece : weight_packings_[replica].pieces)
    parameters_[piece.position].sums[piece.elements.first] = piece.in(packed);
}

Tensor Stage::pack_weights() const {
  const Packing& packing = weight_packings_[replica_];
  const Tensor packed = room(packing, working_dtype(options_.precision));
  for (const PackedPiece& piece : packing.pieces) copy(elements_of(parameters_[piece.position].working, piece.elements), piece.in(packed));
  return packed;
}

void Stage::unpack_weights(int replica, const Tensor& packed) {
  for (const PackedPiece& piece : weight_packings_[replica].pieces)
    copy(piece.in(packed), elements_of(parameters_[piece.position].working, piece.elements));
}

/// Those of a tied parameter that a transfer carries: what the replica at its owner's end adds up, or runs the optimizer on.
ElementRange Stage::tied_elements(const Transfer& transfer) const {
  const bool is_gradient = transfer.payload == Payload::tied_gradient;
  if (!is_gradient && !replication_.shards()) return whole(tied(transfer.value).index);
  return tied_parts_[transfer.value][replica_of(is_gradient ? transfer.to : transfer.from)];
}

/// Of several replicas a list. Undefined when there is none.
Tensor Stage::tied_part(const Transfer& transfer) const {
  const Parameter& parameter = tied(transfer.value);
  Tensor from = parameter.working;
  if (transfer.payload == Payload::tied_gradient) {
    const auto found = parameter.gradients.find(transfer.consumer);
    from = found == parameter.gradients.end() ? Tensor() : found->second;
  }
  const ElementRange elements = tied_elements(transfer);
  if (!from.defined() || elements.count == 0) return {};
  return replication_.replicas == 1 ? from : elements_of(from, elements);
}

const Stage::Parameter& Stage::tied(int number) const { return parameters_[position_of(tied_parameters_[number])]; }

std::optional<layers::ValueType> Stage::expected(const Transfer& transfer) const {
  const DType working = working_dtype(options_.precision);
  const auto packed = [](const Packing& packing, DType dtype) { return layers::ValueType{{packing.elements()}, dtype}; };
  switch (transfer.payload) {
    case Payload::gradient_shard:
      return packed(gradient_packings_[replica_], DType::f32);
    case Payload::gradient_sum:
      return packed(weight_packings_[replica_of(transfer.from)], DType::f32);
    case Payload::weight_shard:
      return packed(weight_packings_[replica_of(transfer.from)], working);
    case Payload::statistics:
      return statistics_.expected(part_of(run_->micro_batches(), replica_of(transfer.from), replication_.replicas));
    default:
      break;
  }
  const int parameter = tied(transfer.value).index;
  const ElementRange elements = tied_elements(transfer);
  const Shape shape = replication_.replicas == 1 ? graph_.parameters()[parameter].spec.shape : Shape{elements.count};
  return layers::ValueType{shape, transfer.payload == Payload::tied_weight ? working : DType::f32};
}

}  // namespace sluice::parallel
