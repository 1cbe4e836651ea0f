#include "layers/module.h"

namespace sluice::layers {

double Module::loss_weight(const std::vector<Tensor>&) const {
  throw UsageError("loss: needs a loss module such as CrossEntropy at the node given to Graph::loss");
}

int Composite::add_child(std::string name, ModulePtr module) {
  const size_t first = children_.empty() ? 0 : children_.back().first_parameter + children_.back().parameter_count;
  const size_t count = module->parameters().size();
  children_.push_back({std::move(name), std::move(module), first, count});
  return static_cast<int>(children_.size()) - 1;
}

std::vector<ParameterSpec> Composite::parameters() const {
  std::vector<ParameterSpec> all;
  for (const auto& child : children_)
    for (auto spec : child.module->parameters()) {
      if (!child.name.empty()) spec.name = child.name + "." + spec.name;
      all.push_back(std::move(spec));
    }
  return all;
}

Var Composite::run(const Call& call, int child, std::vector<Var> inputs) const {
  const Child& part = children_[child];
  Call inner = call;
  inner.inputs = std::move(inputs);
  const auto first = call.parameters.begin() + static_cast<int64_t>(part.first_parameter);
  inner.parameters.assign(first, first + static_cast<int64_t>(part.parameter_count));
  inner.random.use = call.random.use * 16 + static_cast<uint32_t>(child) + 1;
  return part.module->forward(inner);
}

Var Sequence::forward(const Call& call) const {
  require(count_ > 0, "Sequence: needs at least one module");
  Var x = run(call, 0, call.inputs);
  for (int child = 1; child < count_; ++child) x = run(call, child, {x});
  return x;
}

}  // namespace sluice::layers
