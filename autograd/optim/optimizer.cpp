#include "autograd/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/name_pattern.h"
#include "core/ops/adafactor_step.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/optimizer_rules.h"

namespace sluice {

namespace {

void check_range(const char* optimizer, const char* option, double value, double end) {
  require(value >= 0 && value < end, optimizer, ": needs ", option, " in [0, ", end, "), got ", value);
}

std::vector<std::string> names_if(bool wanted, std::vector<std::string> names) { return wanted ? names : std::vector<std::string>(); }

}  // namespace

std::vector<OptimizerState> Optimizer::states_of(const Shape& parameter) const {
  std::vector<OptimizerState> states;
  for (std::string& name : state_names()) states.push_back({std::move(name), parameter});
  return states;
}

double Optimizer::ema_decay(int64_t step) const {
  const auto done = static_cast<double>(step);
  return std::min(ema, (1 + done) / (10 + done));
}

void Optimizer::groups(std::vector<ParameterGroup> groups) {
  for (const auto& [names, settings] : groups) {
    for (const auto& [what, value] : {std::pair("lr", settings.lr), std::pair("weight_decay", settings.weight_decay)})
      require(!value || (*value >= 0 && std::isfinite(*value)), name(), ": needs ", what, " in [0, inf) for the group '", names, "', got ",
              value.value_or(0));
  }
  groups_ = std::move(groups);
  check_rates();
}

/// Rates are shares of the optimizer's, which may have been set since.
void Optimizer::check_rates() const {
  for (const auto& [names, settings] : groups_)
    require(!settings.lr || rate.base > 0, name(), ": the group '", names,
            "' has a rate of its own, which runs as the optimizer's does: give that an lr > 0");
}

void Optimizer::require_groups(const std::vector<std::string>& parameters) const {
  check_rates();
  for (const auto& group : groups_) require_matches(name() + ": a group of parameters", group.names, parameters);
}

void Optimizer::require_states(const Shape& parameter) const {
  std::set<std::string> names;
  for (const OptimizerState& state : states_of(parameter)) {
    require(names.insert(state.name).second, name(), ": Optimizer::states_of needs a name of its own for each state, got '", state.name,
            "' twice; a checkpoint would keep one of them");
    require(needs_whole_parameters() || state.shape == parameter, name(), ": needs states like their parameter ", parameter, ", got '",
            state.name, "' ", state.shape, "; where parts of a parameter cannot be stepped alone, override needs_whole_parameters()");
  }
}

void Optimizer::step_groups(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  if (groups_.empty()) return apply(slots, update);
  check_rates();
  std::vector<std::vector<OptimizerSlot>> parts(groups_.size() + 1);
  for (const OptimizerSlot& slot : slots) {
    const auto of = std::ranges::find_if(groups_, [&](const auto& group) { return matches_pattern(group.names, slot.name); });
    parts[static_cast<size_t>(of - groups_.begin())].push_back(slot);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    Update own = update;
    if (const auto lr = groups_[i].settings.lr) own.learning_rate *= *lr / rate.base;
    own.weight_decay = groups_[i].settings.weight_decay;
    if (!parts[i].empty()) apply(parts[i], own);
  }
  if (!parts.back().empty()) apply(parts.back(), update);
}

namespace {

/// The factor of all gradients, as fused steps find it on their device; NaN where the norm is not finite. A meta device clips all.
double factor_of(const GradientClip& clip) {
  if (!clip.sum_of_squares.defined() || clip.sum_of_squares.device().kind() == DeviceKind::meta) return 1;
  const double sum = clip.sum_of_squares.item();
  return rules::gradient_factor(&sum, clip.largest_norm);
}

/// The pass of a fused step that moves nothing.
void write_working_copies(const std::vector<OptimizerSlot>& slots) {
  std::vector<OptimizerSlot> copied;
  for (const OptimizerSlot& slot : slots)
    if (slot.working.defined() && !slot.working.shares_storage(slot.parameter)) {
      copied.push_back(slot);
      copied.back().states.clear();
    }
  sgd_step(copied, {.learning_rate = 0, .weight_decay = 0, .momentum = 0, .nesterov = false});
}

}  // namespace

void Optimizer::step(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  if (slots.empty()) return;
  if (is_fused()) return step_groups(slots, update);
  const double factor = factor_of(update.clip);
  if (std::isnan(factor)) return;
  // Also by 1, so that a step takes the bytes that were planned whatever the clip and its norm are.
  if (update.clip.sum_of_squares.defined())
    for (const OptimizerSlot& slot : slots) copy(scale(slot.gradient, factor), slot.gradient);
  Update of_clipped = update;
  of_clipped.clip = {};
  step_groups(slots, of_clipped);
  write_working_copies(slots);
}

SGD::SGD(const Options& options) : options_(options) {
  check_range("sgd", "lr", options.lr, INFINITY);
  check_range("sgd", "momentum", options.momentum, 1);
  check_range("sgd", "weight_decay", options.weight_decay, INFINITY);
  require(!options.nesterov || options.momentum > 0, "sgd: nesterov needs a momentum > 0");
  rate.base = options.lr;
}

std::unique_ptr<Optimizer> SGD::clone() const { return std::make_unique<SGD>(*this); }

std::vector<std::pair<std::string, double>> SGD::settings() const {
  return {{"momentum", options_.momentum}, {"weight_decay", options_.weight_decay}, {"nesterov", options_.nesterov ? 1 : 0}};
}

std::vector<std::string> SGD::state_names() const { return names_if(options_.momentum != 0, {"momentum"}); }

std::vector<std::string> SGD::unneeded_state_names() const { return names_if(options_.momentum == 0, {"momentum"}); }

void SGD::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  sgd_step(slots, {update.learning_rate, update.weight_decay.value_or(options_.weight_decay), options_.momentum, options_.nesterov},
           update.clip);
}

Adam::Adam(const char* name, const Options& options) : options_(options) {
  check_range(name, "lr", options.lr, INFINITY);
  check_range(name, "beta1", options.beta1, 1);
  check_range(name, "beta2", options.beta2, 1);
  check_range(name, "weight_decay", options.weight_decay, INFINITY);
  require(options.epsilon > 0 && std::isfinite(options.epsilon), name, ": needs epsilon > 0, got ", options.epsilon);
  rate.base = options.lr;
}

std::unique_ptr<Optimizer> Adam::clone() const { return std::make_unique<Adam>(*this); }

std::vector<std::pair<std::string, double>> Adam::settings() const {
  return {{"beta1", options_.beta1}, {"beta2", options_.beta2}, {"epsilon", options_.epsilon}, {"weight_decay", options_.weight_decay}};
}

std::vector<std::string> Adam::state_names() const {
  if (options_.beta1 == 0) return {"v"};
  return {"m", "v"};
}

std::vector<std::string> Adam::unneeded_state_names() const { return names_if(options_.beta1 == 0, {"m"}); }

void Adam::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  adam_step(slots,
            {update.learning_rate, options_.beta1, options_.beta2, options_.epsilon, update.weight_decay.value_or(options_.weight_decay),
             decoupled(), update.step},
            update.clip);
}

AdamW::AdamW(const Options& options)
    : Adam("adamw", {.lr = options.lr,
                     .beta1 = options.beta1,
                     .beta2 = options.beta2,
                     .epsilon = options.epsilon,
                     .weight_decay = options.weight_decay}) {}

std::unique_ptr<Optimizer> AdamW::clone() const { return std::make_unique<AdamW>(*this); }

RMSProp::RMSProp(const Options& options) : options_(options) {
  check_range("rmsprop", "lr", options.lr, INFINITY);
  check_range("rmsprop", "average", options.average, 1);
  check_range("rmsprop", "momentum", options.momentum, 1);
  check_range("rmsprop", "weight_decay", options.weight_decay, INFINITY);
  require(options.epsilon > 0 && std::isfinite(options.epsilon), "rmsprop: needs epsilon > 0, got ", options.epsilon);
  rate.base = options.lr;
}

std::unique_ptr<Optimizer> RMSProp::clone() const { return std::make_unique<RMSProp>(*this); }

std::vector<std::pair<std::string, double>> RMSProp::settings() const {
  return {{"average", options_.average},
          {"momentum", options_.momentum},
          {"epsilon", options_.epsilon},
          {"weight_decay", options_.weight_decay}};
}

std::vector<std::string> RMSProp::state_names() const {
  if (options_.momentum == 0) return {"square"};
  return {"square", "velocity"};
}

std::vector<std::string> RMSProp::unneeded_state_names() const { return names_if(options_.momentum == 0, {"velocity"}); }

void RMSProp::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  rmsprop_step(
      slots,
      {update.learning_rate, options_.average, options_.momentum, options_.epsilon, update.weight_decay.value_or(options_.weight_decay)},
      update.clip);
}

Lion::Lion(const Options& options) : options_(options) {
  check_range("lion", "lr", options.lr, INFINITY);
  check_range("lion", "beta1", options.beta1, 1);
  check_range("lion", "beta2", options.beta2, 1);
  check_range("lion", "weight_decay", options.weight_decay, INFINITY);
  rate.base = options.lr;
}

std::unique_ptr<Optimizer> Lion::clone() const { return std::make_unique<Lion>(*this); }

std::vector<std::pair<std::string, double>> Lion::settings() const {
  return {{"beta1", options_.beta1}, {"beta2", options_.beta2}, {"weight_decay", options_.weight_decay}};
}

void Lion::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  lion_step(slots, {update.learning_rate, options_.beta1, options_.beta2, update.weight_decay.value_or(options_.weight_decay)},
            update.clip);
}

Adafactor::Adafactor(const Options& options) : options_(options) {
  check_range("adafactor", "lr", options.lr, INFINITY);
  check_range("adafactor", "weight_decay", options.weight_decay, INFINITY);
  check_range("adafactor", "least_scale", options.least_scale, INFINITY);
  require(options.decay > 0 && options.decay <= 1, "adafactor: needs decay in (0, 1], got ", options.decay);
  require(options.threshold > 0 && std::isfinite(options.threshold), "adafactor: needs threshold > 0, got ", options.threshold);
  rate.base = options.lr;
}

std::unique_ptr<Optimizer> Adafactor::clone() const { return std::make_unique<Adafactor>(*this); }

std::vector<std::pair<std::string, double>> Adafactor::settings() const {
  return {{"decay", options_.decay},
          {"least_scale", options_.least_scale},
          {"threshold", options_.threshold},
          {"weight_decay", options_.weight_decay}};
}

std::vector<OptimizerState> Adafactor::states_of(const Shape& parameter) const {
  const std::vector<Shape> shapes = adafactor_state_shapes(parameter);
  if (shapes.size() == 1) return {{"square", shapes[0]}};
  return {{"row", shapes[0]}, {"column", shapes[1]}};
}

void Adafactor::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  adafactor_step(slots,
                 {update.learning_rate, options_.decay, options_.least_scale, options_.threshold,
                  update.weight_decay.value_or(options_.weight_decay), update.step},
                 update.clip);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options) {
  const auto [lr, momentum, beta1, beta2, epsilon, weight_decay, average] = options;
  if (name == "sgd") return std::make_unique<SGD>(SGD::Options{.lr = lr, .momentum = momentum, .weight_decay = weight_decay});
  if (name == "rmsprop") return std::make_unique<RMSProp>(RMSProp::Options{lr, average, momentum, epsilon, weight_decay});
  if (name == "adam") return std::make_unique<Adam>(Adam::Options{lr, beta1, beta2, epsilon, weight_decay});
  if (name == "adamw") return std::make_unique<AdamW>(AdamW::Options{lr, beta1, beta2, epsilon, weight_decay});
  if (name == "lion") return std::make_unique<Lion>(Lion::Options{lr, beta1, beta2, weight_decay});
  if (name == "adafactor") return std::make_unique<Adafactor>(Adafactor::Options{.lr = lr, .weight_decay = weight_decay});
  const std::string nearest = nearest_word(name, {"sgd", "rmsprop", "adam", "adamw", "lion", "adafactor"});
  throw UsageError(join("optimizer: needs one of sgd, rmsprop, adam, adamw, lion, adafactor, got '", name, "'",
                        nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

}  // namespace sluice
