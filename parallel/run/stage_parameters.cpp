// The parameters of a stage: how they start, their copies and averages, and what the optimizer gets of them.
#include "core/ops/copy.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

/// A frozen parameter is a whole on every replica, and its own average.
/// Averages are shown in the place of what forward reads (show_averages), so a part of a parameter that has one is a copy.
Stage::Parameter Stage::make_parameter(int index) const {
  const auto& description = graph_.parameters()[index];
  if (options_.inference) return {.index = index, .working = empty(description.spec.shape, working_dtype(options_.precision), device_)};
  const Tensor start = empty(description.spec.shape, DType::f32, device_);
  layers::initialize(start, description.spec.initializer, random_key(options_.seed, description.name));
  const bool is_mine = is_here(description.nodes.front());
  Parameter made{.index = index, .uses = uses_here(index), .master = start, .working = start};
  if (is_mine && !description.frozen) made.shard = replication_.replicas == 1 ? whole(index) : elements_in(shard(), index);
  made.range = is_sharded(replication_, description) ? made.shard : whole(index);
  made.owned = is_mine && made.range.count > 0;
  const bool is_part = made.owned && made.range != whole(index);
  const DType dtype = working_dtype(options_.precision);
  if (dtype != DType::f32 || (is_part && options_.averages)) {
    made.working = empty(description.spec.shape, dtype, device_);
    write_working(made, start, whole(index), 0);
  }
  if (is_part) made.master = elements_of(start, made.range);
  if (is_part && !made.working.shares_storage(start)) made.master = made.master.clone();
  if (!made.owned) made.master = Tensor();
  if (description.frozen) return made;
  if (made.owned && options_.optimizer)
    for (const OptimizerState& state : options_.optimizer->states_of(made.master.shape()))
      made.states.push_back(zeros(state.shape, DType::f32, device_));
  if (made.owned && options_.averages) made.average = made.master.clone();
  return made;
}

void Stage::set_weights(const std::map<std::string, Tensor>& weights) {
  const auto set = [&](const std::string& name, const Tensor& to) {
    const auto found = weights.find(name);
    require(found != weights.end(), "weights: need '", name, "' of the model, it is not among the ", weights.size(), " given");
    require(found->second.shape() == to.shape(), "weights: '", name, "' needs shape ", to.shape(), ", got ", found->second.shape());
    copy(cast(found->second, to.dtype()), to);
  };
  for (const auto& parameter : parameters_) set(graph_.parameters()[parameter.index].name, parameter.working);
  for (const auto& entry : statistics_.entries()) {
    set(graph_.statistics()[entry.index].mean_name(), entry.running.mean);
    set(graph_.statistics()[entry.index].variance_name(), entry.running.variance);
  }
}

void Stage::write_working(const Parameter& parameter, const Tensor& master, const ElementRange& range, int64_t step) const {
  if (parameter.working.shares_storage(master)) return;
  const Tensor working = elements_of(parameter.working, range).reshape(master.shape());
  if (const auto stream = rounding(parameter, step); stream && working.dtype() == DType::bf16)
    round_stochastically(master, working, *stream, range.first);
  else
    copy(master, working);
}

void Stage::write_working(int64_t step) {
  shows_averages_ = false;
  for (const auto& parameter : parameters_)
    if (parameter.owned) write_working(parameter, parameter.master, parameter.range, step);
}

void Stage::copy_masters() {
  for (const auto& parameter : parameters_)
    if (parameter.owned && parameter.working.dtype() == DType::f32) write_working(parameter, parameter.master, parameter.range, 0);
}

void Stage::show_averages() {
  shows_averages_ = true;
  for (const auto& parameter : parameters_)
    if (parameter.average.defined() && !parameter.working.shares_storage(parameter.master))
      copy(parameter.average, elements_of(parameter.working, parameter.range).reshape(parameter.average.shape()));
}

const Tensor& Stage::shown(const Parameter& parameter) const {
  const bool in_place = shows_averages_ && parameter.average.defined() && parameter.working.shares_storage(parameter.master);
  return in_place ? parameter.average : parameter.working;
}

std::vector<MovingAverage> Stage::averages() const {
  std::vector<MovingAverage> averages;
  for (const auto& parameter : parameters_)
    if (parameter.average.defined()) averages.push_back({parameter.average, parameter.master});
  return averages;
}

std::optional<RandomStream> Stage::rounding(const Parameter& parameter, int64_t step) const {
  const auto& [name, spec, nodes, frozen, tied_names] = graph_.parameters()[parameter.index];
  if (!options_.stochastic_rounding || frozen) return std::nullopt;
  return RandomStream{random_key(options_.seed, name + "/rounding"), static_cast<uint32_t>(step)};
}

std::vector<OptimizerSlot> Stage::slots(int64_t step) const {
  std::vector<OptimizerSlot> slots;
  slots.reserve(parameters_.size());
  for (const auto& parameter : parameters_) {
    const auto& [name, spec, nodes, frozen, tied_names] = graph_.parameters()[parameter.index];
    if (!parameter.owned || frozen) continue;
    OptimizerSlot slot{.parameter = parameter.master, .gradient = gradient(parameter), .states = parameter.states, .decay = spec.decay};
    slot.name = name;
    if (parameter.working.dtype() != DType::f32)
      slot.working = elements_of(parameter.working, parameter.range).reshape(parameter.master.shape());
    slot.stochastic = rounding(parameter, step);
    slot.first_element = parameter.range.first;
    slots.push_back(std::move(slot));
  }
  return slots;
}

void Stage::drop_gradients() {
  for (auto& parameter : parameters_) {
    parameter.gradients.clear();
    parameter.sums.clear();
  }
}

}  // namespace sluice::parallel
