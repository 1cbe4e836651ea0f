#include "tests/parallel/random_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "autograd/ops/batch_norm.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "core/ops/argmax.h"
#include "core/ops/copy.h"
#include "layers/batch_norm.h"
#include "layers/embedding.h"
#include "layers/recurrent.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::testing {

using layers::Call;
using layers::Graph;
using layers::Module;
using layers::Value;

namespace {

constexpr int kClasses = 5, kWords = 4, kMostWidth = 12;

/// A module from a function of a call.
template <Var (*function)(const Call&)>
class Function : public Module {
 public:
  layers::InputCount input_count() const override { return {1, layers::InputCount::kAny}; }
  Var forward(const Call& call) const override { return function(call); }
};

Var product(const Call& call) { return mul(call.inputs[0], call.inputs[1]); }
Var side_by_side(const Call& call) { return concat(call.inputs, -1); }
Var constant(const Call& call) { return call.inputs[0].value(); }
Var gated_by_a_constant(const Call& call) { return mul(call.inputs[0], Var(call.inputs[1].value())); }
Var most_likely(const Call& call) { return argmax(call.inputs[0].value()); }
Var most_likely_i32(const Call& call) { return cast(argmax(call.inputs[0].value()), DType::i32); }
Var smooth(const Call& call) { return tanh(call.inputs[0]); }
/// [B, ..., C] -> [B, C], the mean over the axes between.
Var over_samples(const Var& x) {
  std::vector<int> between(static_cast<size_t>(x.rank() - 2));
  std::iota(between.begin(), between.end(), 1);
  return between.empty() ? x : mean(x, between);
}
Var joined(const Call& call) { return concat({over_samples(call.inputs[0]), over_samples(call.inputs[1])}, -1); }

/// x as a constant; has running statistics of it, but no parameter.
class Watch : public Module {
 public:
  explicit Watch(int64_t channels) : channels_(channels) {}
  std::vector<layers::StatisticsSpec> statistics() const override { return {{"", channels_, 0.5}}; }
  Var forward(const Call& call) const override {
    const Tensor& x = call.inputs[0].value();
    if (call.observed.empty()) return x;
    const Tensor one = full({channels_}, 1, x.dtype(), x.device_ptr()), zero = zeros({channels_}, x.dtype(), x.device_ptr());
    const auto seen = batch_norm(Var(x), Var(one), Var(zero), 1e-5);
    call.observed[0].push_back({seen.mean, seen.variance, x.elements() / channels_});
    return x;
  }

 private:
  int64_t channels_;
};

enum class Kind {
  linear,
  normalized,
  norm,
  lstm,
  gru,
  table,
  sum,
  times,
  concat,
  dropout,
  smooth,
  detach,
  gate,
  argmax,
  argmax_i32,
  watch
};

struct NodeSpec {
  Kind kind;
  std::vector<int> inputs;  ///< value ids
  int width = 0;            ///< of its value's last axis; 0 for an integer
  int words = 0;            ///< of a table
  layers::RecurrentOptions recurrent{};
};

/// What is known of a value while the graph is drawn: its shape without the batch, and how many classes when it is an integer.
struct ValueSpec {
  std::vector<int> extents;
  int classes = 0;
  DType dtype = DType::i32;  ///< of an integer
  bool is_float() const { return classes == 0; }
  int width() const { return extents.back(); }
};

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : draw_(seed) {}

  RandomGraph run() {
    values_ = {{{3}, 0}, {{2, 4}, 0}, {{3}, kWords}, {{}, kClasses}, {{2}, 0}};  // "unused" may be used, too
    const int nodes = draw_.from(1, 8);
    while (static_cast<int>(nodes_.size()) < nodes) add_node();
    choose_joined();
    return build();
  }

 private:
  static constexpr int kInputs = 5;

  template <class Wanted>
  std::vector<int> values(const Wanted& wanted) const {
    std::vector<int> found;
    for (size_t value = 0; value < values_.size(); ++value)
      if (wanted(values_[value])) found.push_back(static_cast<int>(value));
    return found;
  }
  int any_float() {
    return draw_.of(values([](const ValueSpec& v) { return v.is_float(); }));
  }
  int any_like(int value) {
    return draw_.of(values([&](const ValueSpec& v) { return v.is_float() && v.extents == values_[value].extents; }));
  }

  void add_node() {
    const auto kind = static_cast<Kind>(draw_.from(0, static_cast<int>(Kind::watch)));
    NodeSpec node{draw_.one_in(4) ? Kind::linear : kind, {any_float()}};
    ValueSpec value = values_[node.inputs[0]];
    switch (node.kind) {
      case Kind::linear:
      case Kind::normalized:
        value.extents.back() = draw_.from(2, 4);
        break;
      case Kind::lstm:
      case Kind::gru:
        if (!draw_recurrent(node, value)) return;
        break;
      case Kind::table: {
        node.inputs = {draw_.of(values([](const ValueSpec& v) { return !v.is_float() && v.extents.size() <= 1; }))};
        value = values_[node.inputs[0]];
        node.words = value.classes;
        value = {value.extents, 0};
        value.extents.push_back(draw_.from(2, 4));
        break;
      }
      case Kind::sum:
        for (int more = draw_.from(1, 2); more-- > 0;) node.inputs.push_back(any_like(node.inputs[0]));
        break;
      case Kind::times:
      case Kind::gate:
        node.inputs.push_back(any_like(node.inputs[0]));
        break;
      case Kind::concat: {
        const auto lead = [](std::vector<int> extents) { return extents.pop_back(), extents; };
        node.inputs.push_back(draw_.of(values([&](const ValueSpec& v) { return v.is_float() && lead(v.extents) == lead(value.extents); })));
        value.extents.back() += values_[node.inputs[1]].width();
        if (value.width() > kMostWidth) return;
        break;
      }
      case Kind::argmax:
      case Kind::argmax_i32:
        value = {{value.extents.begin(), value.extents.end() - 1}, value.width(), node.kind == Kind::argmax ? DType::i64 : DType::i32};
        break;
      default:
        break;
    }
    node.width = value.is_float() ? value.width() : 0;
    nodes_.push_back(node);
    values_.push_back(value);
  }

  /// One or two layers over a sequence, in one direction or both; one in three begins at a state that another node gives, or has lengths.
  /// False where no value is a sequence.
  bool draw_recurrent(NodeSpec& node, ValueSpec& value) {
    const auto sequences = values([](const ValueSpec& v) { return v.is_float() && v.extents.size() == 2; });
    if (sequences.empty()) return false;
    node.inputs = {draw_.of(sequences)};
    const ValueSpec x = values_[node.inputs[0]];
    auto& options = node.recurrent;
    options = {.inputs = x.width(), .hidden = draw_.from(2, 4), .layers = 1, .bidirectional = draw_.one_in(3)};
    const auto states = values([](const ValueSpec& v) { return v.is_float() && v.extents.size() == 1 && v.width() <= 4; });
    if (!options.bidirectional && !states.empty() && draw_.one_in(3)) {
      node.inputs.push_back(draw_.of(states));
      options.hidden = values_[node.inputs[1]].width();
    } else if (draw_.one_in(3)) {
      options.layers = 2;
      options.dropout = 0.2;
    }
    const auto lengths = values(
        [&](const ValueSpec& v) { return v.classes > 0 && v.classes <= x.extents[0] + 1 && v.dtype == DType::i32 && v.extents.empty(); });
    if (!lengths.empty() && !draw_.one_in(3)) node.inputs.push_back(draw_.of(lengths));
    const int directions = options.bidirectional ? 2 : 1, hidden = static_cast<int>(options.hidden);
    value = {{x.extents[0], directions * hidden}, 0};
    if (draw_.one_in(3)) {
      options.output = layers::RecurrentOutput::last_states;
      value.extents = {static_cast<int>(options.layers) * directions, hidden};
      if (node.kind == Kind::lstm) value.extents.insert(value.extents.begin(), 2);
    }
    return true;
  }

  static bool has_parameters(const NodeSpec& node) { return node.kind <= Kind::table; }
  static bool passes(const NodeSpec& node, size_t input) {
    return node.kind < Kind::detach ? node.kind != Kind::table : node.kind == Kind::gate && input == 0;
  }

  /// By node: its value's gradient comes from what is joined.
  std::vector<bool> reached() const {
    std::vector<bool> wanted(values_.size(), false);
    for (int value : joined_) wanted[value] = true;
    for (size_t node = nodes_.size(); node-- > 0;)
      for (size_t i = 0; i < nodes_[node].inputs.size(); ++i)
        if (wanted[kInputs + node] && passes(nodes_[node], i)) wanted[nodes_[node].inputs[i]] = true;
    return {wanted.begin() + kInputs, wanted.end()};
  }

  /// Every node with parameters leads to the loss, or shares them with one that does.
  void choose_joined() {
    joined_ = {any_float(), any_float()};
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const auto is_reached = reached();
      if (!has_parameters(nodes_[node]) || is_reached[node]) continue;
      std::vector<size_t> partners;
      for (size_t other = 0; other < nodes_.size(); ++other)
        if (is_reached[other] && are_alike(node, other)) partners.push_back(other);
      if (!partners.empty() && !draw_.one_in(3))
        tie(node, draw_.of(partners), true);
      else
        joined_.push_back(kInputs + static_cast<int>(node));
    }
    for (size_t node = 0; node < nodes_.size(); ++node)
      for (size_t other = 0; other < node; ++other)
        if (are_alike(node, other) && draw_.one_in(3)) tie(node, other, draw_.one_in(2));
  }

  bool are_alike(size_t a, size_t b) const {
    return a != b && nodes_[a].kind == Kind::linear && nodes_[b].kind == Kind::linear && nodes_[a].width == nodes_[b].width &&
           values_[nodes_[a].inputs[0]].width() == values_[nodes_[b].inputs[0]].width();
  }

  void tie(size_t a, size_t b, bool with_bias) {
    for (const char* name : {"weight", "bias"}) {
      if (name[0] == 'b' && !with_bias) continue;
      auto& group = groups_[name];
      group.resize(nodes_.size());
      for (size_t i = 0; i < group.size(); ++i) group[i] = group[i].empty() ? std::set<size_t>{i} : group[i];
      std::set<size_t> all = group[a];
      all.insert(group[b].begin(), group[b].end());
      for (size_t member : all) group[member] = all;
    }
  }

  template <class M>
  Value add(const std::string& name, const char* word, M module, const std::vector<int>& inputs) {
    out_.description += join(" ", name, "=", word);
    for (size_t i = 0; i < inputs.size(); ++i) out_.description += join(i ? "," : "(", name_of(inputs[i]));
    out_.description += ")";
    std::vector<Value> values;
    for (const int input : inputs) values.push_back(made_[input]);
    made_.push_back(out_.graph.add(name, std::move(module), values));
    return made_.back();
  }

  std::string name_of(int value) const {
    const int node = out_.graph.node_of(value);
    return node < 0 ? out_.graph.inputs()[static_cast<size_t>(value)].name : out_.graph.nodes()[static_cast<size_t>(node)].name;
  }

  static std::string word_of(const layers::RecurrentOptions& options, const char* cell) {
    return join(options.bidirectional ? "two-way-" : "", cell, options.layers, "x", options.hidden,
                options.output == layers::RecurrentOutput::last_states ? "-last" : "");
  }

  void add_to_graph(const NodeSpec& node, const std::string& name) {
    using namespace layers;
    const int64_t in = node.kind == Kind::table ? 0 : values_[node.inputs[0]].width(), out = node.width;
    switch (node.kind) {
      case Kind::linear:
        add(name, join("linear", out).c_str(), Linear(in, out), node.inputs);
        return;
      case Kind::normalized:
        add(name, "normalized", Sequence().then("linear", Linear(in, out)).then("norm", BatchNorm(out, {.epsilon = 0.1})), node.inputs);
        return;
      case Kind::norm:
        add(name, "norm", BatchNorm(in, {.epsilon = 0.1}), node.inputs);
        return;
      case Kind::lstm:
        add(name, word_of(node.recurrent, "lstm").c_str(), LSTM(node.recurrent), node.inputs);
        return;
      case Kind::gru:
        add(name, word_of(node.recurrent, "gru").c_str(), GRU(node.recurrent), node.inputs);
        return;
      case Kind::table:
        add(name, "table", Embedding(node.words, out, 1), node.inputs);
        return;
      case Kind::sum:
        add(name, "sum", Sum(), node.inputs);
        return;
      case Kind::times:
        add(name, "times", Function<product>(), node.inputs);
        return;
      case Kind::concat:
        add(name, "concat", Function<side_by_side>(), node.inputs);
        return;
      case Kind::dropout:
        add(name, "dropout", Dropout(0.3), node.inputs);
        return;
      case Kind::smooth:
        add(name, "smooth", Function<sluice::testing::smooth>(), node.inputs);
        return;
      case Kind::detach:
        add(name, "detach", Function<constant>(), node.inputs);
        return;
      case Kind::gate:
        add(name, "gate", Function<gated_by_a_constant>(), node.inputs);
        return;
      case Kind::argmax:
        add(name, "argmax", Function<most_likely>(), node.inputs);
        return;
      case Kind::argmax_i32:
        add(name, "argmax-i32", Function<most_likely_i32>(), node.inputs);
        return;
      case Kind::watch:
        add(name, "watch", Watch(in), node.inputs);
        return;
    }
  }

  /// Nodes off the loss path, of `latest` or of anything before it.
  void add_probes(const std::string& name, int latest) {
    for (int probe = draw_.from(0, 2); probe-- > 0;) {
      const int value = draw_.one_in(3) ? latest : any_float();
      const std::string full_name = name + std::to_string(probe);
      if (draw_.one_in(3))
        add(full_name, "smooth", Function<sluice::testing::smooth>(), {value});
      else if (draw_.one_in(2))
        add(full_name, "detach", Function<constant>(), {value});
      else
        add(full_name, "sum", Sum(), {value, value});
    }
  }

  RandomGraph build() {
    Graph& graph = out_.graph;
    out_.has_shapes = !draw_.one_in(8);
    const auto input = [&](const char* name, const Shape& shape, DType dtype) {
      made_.push_back(out_.has_shapes ? graph.input(name, shape, dtype) : graph.input(name));
    };
    input("x", {3}, DType::f32);
    input("grid", {2, 4}, DType::f32);
    input("words", {3}, DType::i32);
    input("label", {}, DType::i32);
    input("spare", {2}, DType::f32);
    if (!out_.has_shapes) out_.description += " (inputs without shapes)";
    for (size_t node = 0; node < nodes_.size(); ++node) add_to_graph(nodes_[node], join("n", node));
    int width = values_[joined_[0]].width(), last = joined_[0];
    for (size_t i = 1; i < joined_.size(); ++i) {
      last = add(join("join", i), "join", Function<joined>(), {last, joined_[i]}).id;
      width += values_[joined_[i]].width();
    }
    const Value logits = add("logits", "linear5", layers::Linear(width, kClasses), {last});
    add_probes("probe", logits.id);
    const Value loss = add("loss", "cross_entropy", layers::CrossEntropy(), {logits.id, 3});
    add_probes("later", loss.id);
    graph.output(logits);
    graph.loss(loss);
    for (const auto& [name, group] : groups_)
      for (size_t node = 0; node < group.size(); ++node)
        if (!group[node].empty() && *group[node].begin() < node) tie_in_graph(*group[node].begin(), node, name);
    if (draw_.one_in(3)) freeze_some();
    return std::move(out_);
  }

  /// Never the weights of the logits, so that something is trained.
  void freeze_some() {
    std::vector<std::string> names;
    for (const auto& parameter : out_.graph.parameters())
      if (parameter.name != "logits.weight" && !draw_.one_in(3)) names.push_back(parameter.name);
    for (const auto& name : names) {
      out_.graph.freeze(name);
      out_.description += join(" !", name);
    }
  }

  void tie_in_graph(size_t first, size_t later, const std::string& parameter) {
    const auto full_name = [&](size_t node) { return join("n", node, ".", parameter); };
    out_.graph.tie(full_name(first), full_name(later));
    out_.description += join(" ", full_name(later), "~", full_name(first));
  }

  Draw draw_;
  std::vector<NodeSpec> nodes_;
  std::vector<ValueSpec> values_;  // the graph's inputs first
  std::vector<int> joined_;        // values that the logits are made of
  std::vector<Value> made_;        // by value, as far as the graph is built
  std::map<std::string, std::vector<std::set<size_t>>> groups_;
  RandomGraph out_;
};

}  // namespace

RandomGraph random_graph(uint64_t seed) { return Drawing(seed).run(); }

Batch random_graph_batch(int64_t samples, uint64_t seed) {
  const auto normal = [&](const Shape& shape, const char* name) {
    const Tensor x = empty(shape);
    fill_normal(x, 0, 1, random_key(seed, name));
    return x;
  };
  return batch_of({{"x", normal({samples, 3}, "x")},
                   {"grid", normal({samples, 2, 4}, "grid")},
                   {"words", random_tokens({samples, 3}, kWords, seed)},
                   {"label", random_tokens({samples}, kClasses, seed + 1000)},
                   {"spare", normal({samples, 2}, "spare")}});
}

}  // namespace sluice::testing
