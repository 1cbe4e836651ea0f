#include "training/decoding/cache_check.h"

#include <algorithm>
#include <cmath>

#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/tables.h"

namespace sluice::training {

namespace {

using layers::ValueType;

constexpr int64_t kMostTokens = 14;
/// Of the largest logit. Rounding differs by less than 1e-4 of it in deep models; what mixes tokens differs by more than a hundredth.
constexpr double kTolerance = 1e-3;

std::optional<ValueType> type_made(const layers::Module& module, const std::vector<ValueType>& inputs) {
  try {
    return layers::output_type(module, inputs);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// By value, where so many tokens come; ends before the first node of which it cannot be known.
std::vector<ValueType> types_of(const TokenModel& model, int64_t tokens) {
  std::vector<ValueType> types;
  for (const auto& input : model.graph.inputs())
    types.push_back(static_cast<int>(types.size()) == model.tokens
                        ? ValueType::of_samples({tokens}, DType::i32)
                        : ValueType::of_samples(input.sample_shape.value_or(Shape{}), input.dtype));
  for (const auto& node : model.graph.nodes()) {
    std::vector<ValueType> inputs;
    for (const int value : node.inputs) inputs.push_back(types[static_cast<size_t>(value)]);
    const auto made = type_made(*node.module, inputs);
    if (!made) break;
    types.push_back(*made);
  }
  return types;
}

/// The value is an input beside the tokens with as many as those along its first axis.
bool may_be_per_token(const TokenModel& model, int value) {
  if (model.graph.node_of(value) >= 0 || value == model.tokens || model.declared < 2) return false;
  const auto& shape = model.graph.inputs()[static_cast<size_t>(value)].sample_shape;
  return shape && shape->rank() >= 1 && (*shape)[0] == model.declared;
}

ValueType with_one_token(const ValueType& type) {
  std::vector<int64_t> extents(type.shape.extents().begin(), type.shape.extents().end());
  extents[1] = 1;
  return {Shape(extents), type.dtype};
}

int64_t number_along_tokens(const ValueType& type) { return type.shape.rank() < 2 ? 1 : type.shape[1]; }

}  // namespace

std::optional<PerTokenInput> per_token_input(const TokenModel& model) {
  const auto types = types_of(model, 1);
  const auto inputs = static_cast<int>(model.graph.inputs().size());
  for (const auto& node : model.graph.nodes()) {
    std::vector<ValueType> given;
    for (const int value : node.inputs) {
      if (value >= static_cast<int>(types.size())) return std::nullopt;
      given.push_back(types[static_cast<size_t>(value)]);
    }
    const auto whole = type_made(*node.module, given);
    for (size_t i = 0; i < given.size(); ++i) {
      const int value = node.inputs[i];
      if (value >= inputs || !may_be_per_token(model, value)) continue;
      auto in_part = given;
      in_part[i] = with_one_token(given[i]);
      const auto made = type_made(*node.module, in_part);
      if (made && (!whole || number_along_tokens(*whole) != number_along_tokens(*made)))
        return PerTokenInput{model.graph.inputs()[static_cast<size_t>(value)].name, node.name};
    }
  }
  return std::nullopt;
}

namespace {

/// Tokens [first, end) of the trial.
struct Piece {
  int64_t first, end;
};

/// The last one is a single token, and the others have different lengths, so that blocks of tokens that a node mixes are cut somewhere.
std::vector<Piece> pieces_of(int64_t tokens) {
  std::vector<Piece> pieces;
  for (const int64_t end : {2 * tokens / 3, tokens - 1, tokens}) {
    const int64_t first = pieces.empty() ? 0 : pieces.back().end;
    if (end > first) pieces.push_back({first, end});
  }
  return pieces;
}

const Tensor& weight_of(const TokenModel& model, const std::string& name) {
  const auto found = model.weights.find(name);
  require(found != model.weights.end(), "weights: need '", name, "' of the model, it is not among the ", model.weights.size(), " given");
  return found->second;
}

Tensor on_host(const Tensor& x) { return cast(x.to(default_device()), DType::f32); }

/// What the calls of a node have in common.
layers::Call call_of(const TokenModel& model, const layers::Graph::Node& node, layers::Tables& tables) {
  layers::Call call;
  for (const int index : node.parameters)
    call.parameters.emplace_back(on_host(weight_of(model, model.graph.parameters()[static_cast<size_t>(index)].name)));
  for (const int index : node.statistics) {
    const auto& statistics = model.graph.statistics()[static_cast<size_t>(index)];
    call.statistics.push_back({on_host(weight_of(model, statistics.mean_name())), on_host(weight_of(model, statistics.variance_name()))});
  }
  call.tables = tables.of(*node.module);
  call.random = {random_key(0, node.name), 0, 0, 0};
  call.training = false;
  return call;
}

Tensor tokens_of_trial(int64_t count, int64_t vocabulary) {
  std::vector<double> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<double>((7 * i + i / 3) % vocabulary));
  return tensor_of(tokens, {1, count}, DType::i32);
}

/// Lengths say that all is there.
Tensor value_of(const layers::Graph::Input& input, int64_t tokens) {
  const Shape shape = ValueType::of_samples(*input.sample_shape, input.dtype, 1).shape;
  if (is_floating(input.dtype)) return randn(shape, random_key(0, input.name), input.dtype);
  return full(shape, shape.rank() == 1 ? static_cast<double>(tokens) : 1, input.dtype);
}

/// A run by values: of all tokens at once, or of a piece.
struct Run {
  Piece piece;
  bool has_caches;
  std::vector<Tensor> values{};
};

/// As Stage runs it.
void run_node(const TokenModel& model, int number, layers::Call call, layers::KeyValueCache& cache, Run& run) {
  const auto& node = model.graph.nodes()[static_cast<size_t>(number)];
  for (const int value : node.inputs) call.inputs.emplace_back(run.values[static_cast<size_t>(value)]);
  if (run.has_caches) {
    call.cache = &cache;
    call.first_position = run.piece.first;
    if (number == model.graph.output_node()) keep_last_token(call);
  }
  run.values.push_back(node.module->forward(call).value());
}

/// The axis that the pieces cut; -1 when they are no pieces of the whole.
int cut_axis(const Tensor& whole, const Tensor& part, const Piece& piece) {
  if (part.rank() != whole.rank()) return -1;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    if (whole.dim(axis) < piece.end || part.dim(axis) != piece.end - piece.first) continue;
    std::vector<int64_t> extents(whole.shape().extents().begin(), whole.shape().extents().end());
    extents[static_cast<size_t>(axis)] = part.dim(axis);
    if (Shape(extents) == part.shape()) return axis;
  }
  return -1;
}

/// By how much, as a part of the largest number.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  double most = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(x[i]));
  }
  return largest > 0 ? most / largest : most;
}

bool is_as_whole(const Tensor& whole, const Tensor& part, const Piece& piece) {
  const int axis = cut_axis(whole, part, piece);
  return axis >= 0 && !(difference(whole.slice(axis, piece.first, piece.end), part) > kTolerance);
}

/// Of the last token, by which the next one is chosen.
bool has_the_same_logits(const Tensor& whole, const Tensor& part, const Piece& piece, int64_t tokens) {
  if (whole.rank() < 2 || whole.dim(1) != tokens || part.rank() != whole.rank()) return false;
  return is_as_whole(whole, layers::last_token(part), {piece.end - 1, piece.end});
}

/// Runs each node of all runs before the next one, so that its weights are read once. False when the whole cannot be tried.
bool run_all(const TokenModel& model, std::vector<Run>& runs) {
  layers::Tables tables(default_device(), DType::f32);
  for (int number = 0; number < static_cast<int>(model.graph.nodes().size()); ++number) {
    const auto& node = model.graph.nodes()[static_cast<size_t>(number)];
    const layers::Call call = call_of(model, node, tables);
    layers::KeyValueCache cache;
    cache.capacity = runs[0].piece.end;
    for (Run& run : runs) {
      try {
        run_node(model, number, call, cache, run);
      } catch (const UsageError& error) {
        if (!run.has_caches) return false;
        throw UsageError(join("decoder: node '", node.name, "' (", layers::type_of(*node.module), "), tried with ",
                              run.piece.end - run.piece.first, " tokens after ", run.piece.first, ": ", error.what()));
      }
    }
  }
  return true;
}

[[noreturn]] void refuse(const TokenModel& model, const std::vector<Run>& runs) {
  const auto& whole = runs[0];
  int number = model.graph.output_node();
  for (int node = number - 1; node >= 0; --node)
    for (size_t i = 1; i < runs.size(); ++i) {
      const auto value = static_cast<size_t>(model.graph.value_of(node));
      if (!is_as_whole(whole.values[value], runs[i].values[value], runs[i].piece)) number = node;
    }
  const auto& node = model.graph.nodes()[static_cast<size_t>(number)];
  throw UsageError(
      join("decoder: needs a model that makes the same of tokens one after the other as of all at once; node '", node.name, "' (",
           layers::type_of(*node.module),
           ") does not. The only layer that may mix tokens is causal attention, which keeps what it saw of them, and the output "
           "is [B, T, vocabulary]; run this model on whole sequences, with Predictor"));
}

}  // namespace

void require_same_with_caches(const TokenModel& model) {
  const int64_t tokens = std::min(model.capacity, kMostTokens);
  if (tokens < 2) return;
  const auto types = types_of(model, tokens);
  const auto output = static_cast<size_t>(model.graph.value_of(model.graph.output_node()));
  const bool is_known = output < types.size() && types[output].shape.rank() > 0;
  const Tensor all = tokens_of_trial(tokens, is_known ? std::max<int64_t>(types[output].shape.extents().back(), 1) : 1);
  std::vector<Run> runs{{{0, tokens}, false}};
  for (const Piece& piece : pieces_of(tokens)) runs.push_back({piece, true});
  for (Run& run : runs)
    for (const auto& input : model.graph.inputs()) {
      const bool is_tokens = static_cast<int>(run.values.size()) == model.tokens;
      if (!is_tokens && !input.sample_shape) return;
      run.values.push_back(is_tokens ? all.slice(1, run.piece.first, run.piece.end).contiguous() : value_of(input, tokens));
    }
  if (!run_all(model, runs)) return;
  for (size_t i = 1; i < runs.size(); ++i)
    if (!has_the_same_logits(runs[0].values[output], runs[i].values[output], runs[i].piece, tokens)) refuse(model, runs);
}

}  // namespace sluice::training
