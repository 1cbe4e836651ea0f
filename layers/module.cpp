#include "layers/module.h"

#include <algorithm>
#include <iterator>

namespace sluice::layers {

double Module::loss_weight(const std::vector<Tensor>&) const {
  throw UsageError("loss: needs a loss module such as CrossEntropy at the node given to Graph::loss");
}

Tensor rows_of_table(const char* module, const Call& call, int64_t first, int64_t count) {
  require(call.tables.size() == 1, module, ": needs its table of positions in Call::tables, got ", call.tables.size(),
          " tables; make them with layers::Tables");
  const Tensor& table = call.tables[0];
  require(first + count <= table.dim(0), module, ": needs at most ", table.dim(0), " tokens (model.context), got ", first + count);
  return table.slice(0, first, first + count);
}

std::string joined_name(const std::string& outer, const std::string& inner) {
  return outer.empty() ? inner : inner.empty() ? outer : outer + "." + inner;
}

int Composite::add_child(std::string name, ModulePtr module) {
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
  return static_cast<int>(children_.size()) - 1;
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

Var Composite::run(const Call& call, int child, std::vector<Var> inputs) const {
  const Child& part = children_[child];
  const auto share = [](const auto& all, size_t first, size_t count) {
    using All = std::decay_t<decltype(all)>;
    return all.empty() ? All() : All(all.begin() + static_cast<int64_t>(first), all.begin() + static_cast<int64_t>(first + count));
  };
  RandomStream random = call.random;
  random.use = call.random.use * 16 + static_cast<uint32_t>(child) + 1;
  return part.module->forward({.inputs = std::move(inputs),
                               .parameters = share(call.parameters, part.first_parameter, part.parameter_count),
                               .tables = share(call.tables, part.first_table, part.table_count),
                               .statistics = share(call.statistics, part.first_statistics, part.statistics_count),
                               .observed = share(call.observed, part.first_statistics, part.statistics_count),
                               .random = random,
                               .training = call.training,
                               .loss_scale = call.loss_scale,
                               .first_position = call.first_position,
                               .cache = call.cache});
}

Var Sequence::forward(const Call& call) const {
  require(count_ > 0, "Sequence: needs at least one module");
  Var x = run(call, 0, call.inputs);
  for (int child = 1; child < count_; ++child) x = run(call, child, {x});
  return x;
}

}  // namespace sluice::layers
