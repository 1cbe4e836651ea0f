// The parameters of a stage: how they start, their copies and averages, and what the optimizer gets of them.
#include "core/ops/copy.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

namespace {

void initialize(const Tensor& x, const layers::Graph::Parameter& parameter, uint64_t seed) {
  using Kind = layers::Initializer::Kind;
  const auto& start = parameter.spec.initializer;
  if (start.kind == Kind::normal)
    fill_normal(x, 0, start.standard_deviation, random_key(seed, parameter.name));
  else
    fill(x, start.kind == Kind::ones ? 1 : 0);
}

}  // namespace

Stage::Parameter Stage::make_parameter(int index) const {
  const auto& description = graph_.parameters()[index];
  const Shape& shape = description.spec.shape;
  const Tensor master = empty(shape, DType::f32, device_);
  initialize(master, description, options_.seed);
  Parameter made{index, is_here(description.nodes.front()), master, master, {}, {}, {}};
  if (const DType dtype = working_dtype(options_.precision); dtype != DType::f32) {
    made.working = empty(shape, dtype, device_);
    write_working(made, 0);
  }
  if (!made.owned) made.master = Tensor();
  for (size_t i = 0; made.owned && i < options_.optimizer_states; ++i) made.states.push_back(zeros(shape, DType::f32, device_));
  if (made.owned && options_.averages) made.average = made.master.clone();
  return made;
}

void Stage::write_working(const Parameter& parameter, int64_t step) const {
  if (parameter.working.shares_storage(parameter.master)) return;
  if (const auto stream = rounding(parameter, step))
    round_stochastically(parameter.master, parameter.working, *stream);
  else
    copy(parameter.master, parameter.working);
}

void Stage::write_working(int64_t step) {
  shows_averages_ = false;
  for (const auto& parameter : parameters_)
    if (parameter.owned) write_working(parameter, step);
}

void Stage::show_averages() {
  shows_averages_ = true;
  for (const auto& parameter : parameters_)
    if (parameter.owned && !parameter.working.shares_storage(parameter.master)) copy(parameter.average, parameter.working);
}

const Tensor& Stage::shown(const Parameter& parameter) const {
  const bool in_place = shows_averages_ && parameter.owned && parameter.working.shares_storage(parameter.master);
  return in_place ? parameter.average : parameter.working;
}

std::vector<MovingAverage> Stage::averages() const {
  std::vector<MovingAverage> averages;
  for (const auto& parameter : parameters_)
    if (parameter.average.defined()) averages.push_back({parameter.average, parameter.master});
  return averages;
}

std::optional<RandomStream> Stage::rounding(const Parameter& parameter, int64_t step) const {
  if (!options_.stochastic_rounding) return std::nullopt;
  const auto& name = graph_.parameters()[parameter.index].name;
  return RandomStream{random_key(options_.seed, name + "/rounding"), static_cast<uint32_t>(step)};
}

std::vector<OptimizerSlot> Stage::slots(int64_t step) const {
  std::vector<OptimizerSlot> slots;
  for (const auto& parameter : parameters_) {
    if (!parameter.owned) continue;
    const bool decays = graph_.parameters()[parameter.index].spec.decay;
    const bool has_copy = !parameter.working.shares_storage(parameter.master);
    slots.push_back({parameter.master, gradient(parameter), parameter.states, decays, has_copy ? parameter.working : Tensor(),
                     rounding(parameter, step)});
  }
  return slots;
}

Tensor Stage::gradient(const Parameter& parameter) const {
  const auto& name = graph_.parameters()[parameter.index].name;
  require(parameter.gradients.size() == 1 && parameter.gradients.begin()->second.defined(), "step: parameter '", name,
          "' has no gradient; the loss does not depend on it");
  return parameter.gradients.begin()->second;
}

void Stage::drop_gradients() {
  for (auto& parameter : parameters_) parameter.gradients.clear();
}

}  // namespace sluice::parallel
