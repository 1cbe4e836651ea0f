#include "layers/model_digest.h"

#include <iomanip>
#include <locale>
#include <sstream>

#include "autograd/recorded_ops.h"
#include "core/file/hash.h"
#include "core/ops/copy.h"
#include "layers/value_type.h"

namespace sluice::layers {

namespace {

void describe(std::ostream& out, const std::vector<int>& numbers) {
  for (const int number : numbers) out << ' ' << number;
}

void describe(std::ostream& out, const Graph::Input& input) {
  out << "input " << std::quoted(input.name) << ' ' << name_of(input.dtype);
  if (input.sample_shape) out << *input.sample_shape;
  out << '\n';
}

/// The shape of given values is the parameter's.
void describe(std::ostream& out, const Initializer& start) {
  out << ' ' << static_cast<int>(start.kind) << ' ' << start.standard_deviation;
  if (start.low != 0 || start.high != 0) out << ' ' << start.low << ' ' << start.high;
  if (!start.given.defined()) return;
  const auto values = cast(start.given, DType::f64).to_vector();
  out << ' ' << hash_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
}

void describe(std::ostream& out, const Graph::Parameter& parameter) {
  const ParameterSpec& spec = parameter.spec;
  out << "parameter " << std::quoted(parameter.name) << ' ' << spec.shape << " starts";
  describe(out, spec.initializer);
  out << " decay " << spec.decay << " of";
  describe(out, parameter.nodes);
  if (parameter.frozen) out << " frozen";
  out << '\n';
}

void describe(std::ostream& out, const Graph::Statistics& statistics) {
  out << "statistics " << std::quoted(statistics.name) << ' ' << statistics.spec.channels << ' ' << statistics.spec.momentum << '\n';
}

void describe(std::ostream& out, const Graph::Node& node) {
  out << "node " << std::quoted(node.name) << ' ' << type_of(*node.module) << " reads";
  describe(out, node.inputs);
  out << " parameters";
  describe(out, node.parameters);
  out << " statistics";
  describe(out, node.statistics);
  for (const auto& [length, width, as_activations] : node.module->tables())
    out << " table " << length << ' ' << width << ' ' << as_activations;
}

/// What a node records and makes, as far as that is known of all that it reads.
std::optional<Var> output_of(const Graph::Node& node, const std::vector<std::optional<ValueType>>& known) {
  std::vector<ValueType> inputs;
  for (const int value : node.inputs)
    if (known[value]) inputs.push_back(*known[value]);
  return inputs.size() == node.inputs.size() ? recorded_output(*node.module, inputs) : std::nullopt;
}

void describe_nodes(std::ostream& out, const Graph& graph) {
  std::vector<std::optional<ValueType>> known;
  for (const auto& input : graph.inputs())
    known.push_back(input.sample_shape ? std::optional(ValueType::of_samples(*input.sample_shape, input.dtype)) : std::nullopt);
  for (const auto& node : graph.nodes()) {
    describe(out, node);
    const auto y = output_of(node, known);
    if (y) out << recorded_ops(y->node(), true) << "; makes " << name_of(y->value().dtype()) << y->shape();
    known.push_back(y ? std::optional(ValueType{y->shape(), y->value().dtype()}) : std::nullopt);
    out << '\n';
  }
}

}  // namespace

std::string model_digest(const Graph& graph) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::hexfloat;
  for (const auto& input : graph.inputs()) describe(out, input);
  describe_nodes(out, graph);
  for (const auto& parameter : graph.parameters()) describe(out, parameter);
  for (const auto& statistics : graph.statistics()) describe(out, statistics);
  out << "loss " << (graph.has_loss() ? graph.loss_node() : -1) << " output";
  describe(out, graph.output_nodes());
  out << '\n';
  return hash_of(std::move(out).str());
}

}  // namespace sluice::layers
