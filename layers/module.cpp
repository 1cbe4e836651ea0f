#include "layers/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <typeinfo>

#include "autograd/ops/cast.h"
#include "core/suggestion.h"

namespace sluice::layers {

Var in_working_dtype(const Var& x, const Var& weight) {
  return is_floating(x.dtype()) && is_floating(weight.dtype()) ? cast(x, weight.dtype()) : x;
}

Tensor last_token(const Tensor& x) { return x.dim(1) == 1 ? x : x.slice(1, x.dim(1) - 1, x.dim(1)).contiguous(); }

void keep_last_token(Call& call) {
  if (call.inputs.size() == 1) call.inputs = {Var(last_token(call.inputs[0].value()))};
}

double Module::loss_weight(const std::vector<Tensor>&, int64_t) const {
  throw UsageError(join("loss: needs a loss module such as CrossEntropy at the node given to Graph::loss, got ", type_of(*this),
                        "; a loss of your own derives from layers::Loss"));
}

const Var& Module::parameter(const Call& call, std::string_view name) const {
  std::vector<std::string> names;
  for (auto& spec : parameters()) names.push_back(std::move(spec.name));
  const auto found = std::ranges::find(names, name);
  require(found != names.end(), type_of(*this), ": has no parameter '", name, "'", suggestion(std::string(name), names),
          "; Module::parameters() names them");
  return call.parameters[static_cast<size_t>(found - names.begin())];
}

std::vector<double> Module::loss_weights(const std::vector<Tensor>& inputs, int64_t samples) const {
  return {loss_weight(inputs, samples)};
}

Tensor rows_of_table(const char* module, const Call& call, int64_t first, int64_t count) {
  require(call.tables.size() == 1, module, ": needs its table of positions in Call::tables, got ", call.tables.size(),
          " tables; make them with layers::Tables");
  const Tensor& table = call.tables[0];
  require(first + count <= table.dim(0), module, ": needs at most ", table.dim(0), " tokens, its context (model.context), got ",
          first + count);
  return table.slice(0, first, first + count);
}

std::string joined_name(const std::string& outer, const std::string& inner) {
  return outer.empty() ? inner : inner.empty() ? outer : outer + "." + inner;
}

std::vector<std::string> tensor_names(const Module& module) {
  std::vector<std::string> names;
  for (const auto& spec : module.parameters()) names.push_back(spec.name);
  for (const auto& spec : module.statistics())
    for (const char* state : {"running_mean", "running_variance"}) names.push_back(joined_name(spec.name, state));
  return names;
}

std::string type_of(const Module& module) {
  const char* mangled = typeid(module).name();
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
  const std::string type = plain ? plain.get() : mangled, label = module.label();
  return label.empty() ? type : type + " '" + label + "'";
}

namespace {

std::string text_of(const InputCount& count) {
  const std::string least = std::to_string(count.least), inputs = count.most == 1 ? " input" : " inputs";
  if (count.most == InputCount::kAny) return "at least " + least + (count.least == 1 ? " input" : " inputs");
  if (count.least == count.most) return least + inputs;
  return least + (count.most == count.least + 1 ? " or " : " to ") + std::to_string(count.most) + inputs;
}

}  // namespace

bool takes(const Module& module, size_t inputs) {
  const InputCount count = module.input_count();
  return inputs >= static_cast<size_t>(count.least) && inputs <= static_cast<size_t>(count.most);
}

void refuse_inputs(const std::string& subject, const Module& module, size_t given) {
  throw UsageError(join(subject, " (", type_of(module), ") needs ", text_of(module.input_count()), ", got ", given,
                        "; a module that takes another number says so in Module::input_count()"));
}

void require_made_here(const Module& module, const Var& made, const Device& device) {
  require(made.value().defined(), type_of(module), "::forward: needs to return a value, got none");
  require(&made.value().device() == &device, type_of(module), "::forward: needs to return a value on ", device,
          ", the device of its call, got ", made.value(),
          " of another device; make new tensors there, by Call::zeros() or with inputs[0].value().device_ptr()");
}

int Composite::add_child(std::string name, ModulePtr module) {
  const int number = static_cast<int>(children_.size());
  for (const auto& tensor : tensor_names(*module)) {
    const std::string full_name = joined_name(name, tensor);
    const auto [known, is_new] = tensors_.insert({full_name, number});
    if (!is_new)
      throw UsageError(join("composite: child ", number, " '", name, "' has a tensor '", full_name, "', as child ", known->second, " '",
                            known->second == number ? name : children_[known->second].name,
                            "' has; checkpoints keep tensors by name, so give the children different ones"));
  }
  Child child{std::move(name), std::move(module), 0, 0, 0, 0, 0, 0};
  if (!children_.empty()) {
    const Child& last = children_.back();
    child.first_parameter = last.first_parameter + last.parameter_count;
    child.first_table = last.first_table + last.table_count;
    child.first_statistics = last.first_statistics + last.statistics_count;
  }
  child.parameter_count = child.module->parameters().size();
  child.table_count = child.module->tables().size();
  child.statistics_count = child.module->statistics().size();
  children_.push_back(std::move(child));
  return number;
}

std::vector<ParameterSpec> Composite::parameters() const {
  std::vector<ParameterSpec> all;
  for (const auto& child : children_)
    for (auto spec : child.module->parameters()) {
      spec.name = joined_name(child.name, spec.name);
      all.push_back(std::move(spec));
    }
  return all;
}

std::vector<StatisticsSpec> Composite::statistics() const {
  std::vector<StatisticsSpec> all;
  for (const auto& child : children_)
    for (auto spec : child.module->statistics()) {
      spec.name = joined_name(child.name, spec.name);
      all.push_back(std::move(spec));
    }
  return all;
}

std::vector<TableSpec> Composite::tables() const {
  std::vector<TableSpec> all;
  for (const auto& child : children_) std::ranges::copy(child.module->tables(), std::back_inserter(all));
  return all;
}

std::string Composite::label() const {
  std::string all;
  for (const auto& child : children_) {
    const std::string label = child.module->label();
    if (!label.empty()) all += (all.empty() ? "" : ", ") + label;
  }
  return all;
}

const Composite::Child& Composite::child_at(int number) const {
  require(number >= 0 && number < child_count(), "composite: there is no child ", number, " of ", child_count(),
          "; use what add() returned, of a module that was not moved away");
  return children_[number];
}

Var Composite::run(const Call& call, int child, std::vector<Var> inputs) const {
  const Child& part = child_at(child);
  if (!takes(*part.module, inputs.size())) refuse_inputs("composite: child '" + part.name + "'", *part.module, inputs.size());
  call.uses.resize(children_.size());
  const int use = call.uses[static_cast<size_t>(child)]++;
  const auto share = [](const auto& all, size_t first, size_t count) {
    using All = std::decay_t<decltype(all)>;
    return all.size() < first + count ? All()
                                      : All(all.begin() + static_cast<int64_t>(first), all.begin() + static_cast<int64_t>(first + count));
  };
  return part.module->forward({.inputs = std::move(inputs),
                               .parameters = share(call.parameters, part.first_parameter, part.parameter_count),
                               .tables = share(call.tables, part.first_table, part.table_count),
                               .statistics = share(call.statistics, part.first_statistics, part.statistics_count),
                               .observed = share(call.observed, part.first_statistics, part.statistics_count),
                               .random = part_of(call.random, child, use),
                               .training = call.training,
                               .loss_scale = call.loss_scale,
                               .first_position = call.first_position,
                               .cache = call.cache ? &call.cache->of(child, use) : nullptr,
                               .attention_weights = call.attention_weights,
                               .shapes_of_losses = call.shapes_of_losses});
}

InputCount Sequence::input_count() const {
  require(child_count() > 0, "Sequence: needs at least one module");
  return child(0).input_count();
}

Var Sequence::forward(const Call& call) const {
  require(child_count() > 0, "Sequence: needs at least one module");
  Var x = run(call, 0, call.inputs);
  for (int child = 1; child < child_count(); ++child) x = run(call, child, {x});
  return x;
}

}  // namespace sluice::layers
