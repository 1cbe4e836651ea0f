#include "autograd/optim/optimizer.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

void check_range(const char* optimizer, const char* option, double value, double end) {
  require(value >= 0 && value < end, optimizer, ": needs ", option, " in [0, ", end, "), got ", value);
}

std::vector<std::string> names_if(bool wanted, std::vector<std::string> names) { return wanted ? names : std::vector<std::string>(); }

}  // namespace

double Optimizer::ema_decay(int64_t step) const {
  const auto done = static_cast<double>(step);
  return std::min(ema, (1 + done) / (10 + done));
}

SGD::SGD(const Options& options) : options_(options) {
  check_range("sgd", "lr", options.lr, INFINITY);
  check_range("sgd", "momentum", options.momentum, 1);
  check_range("sgd", "weight_decay", options.weight_decay, INFINITY);
  require(!options.nesterov || options.momentum > 0, "sgd: nesterov needs a momentum > 0");
  rate.base = options.lr;
}

std::vector<std::string> SGD::state_names() const { return names_if(options_.momentum != 0, {"momentum"}); }

std::vector<std::string> SGD::unneeded_state_names() const { return names_if(options_.momentum == 0, {"momentum"}); }

void SGD::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  sgd_step(slots, {update.learning_rate, options_.weight_decay, options_.momentum, options_.nesterov}, update.clip);
}

Adam::Adam(const Options& options) : options_(options) {
  check_range("adam", "lr", options.lr, INFINITY);
  check_range("adam", "beta1", options.beta1, 1);
  check_range("adam", "beta2", options.beta2, 1);
  check_range("adam", "weight_decay", options.weight_decay, INFINITY);
  require(options.epsilon > 0 && std::isfinite(options.epsilon), "adam: needs epsilon > 0, got ", options.epsilon);
  rate.base = options.lr;
}

std::vector<std::string> Adam::state_names() const {
  if (options_.beta1 == 0) return {"v"};
  return {"m", "v"};
}

std::vector<std::string> Adam::unneeded_state_names() const { return names_if(options_.beta1 == 0, {"m"}); }

void Adam::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  adam_step(slots,
            {update.learning_rate, options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay, decoupled(), update.step},
            update.clip);
}

AdamW::AdamW(const Options& options)
    : Adam({.lr = options.lr,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .epsilon = options.epsilon,
            .weight_decay = options.weight_decay}) {}

RMSProp::RMSProp(const Options& options) : options_(options) {
  check_range("rmsprop", "lr", options.lr, INFINITY);
  check_range("rmsprop", "average", options.average, 1);
  check_range("rmsprop", "momentum", options.momentum, 1);
  check_range("rmsprop", "weight_decay", options.weight_decay, INFINITY);
  require(options.epsilon > 0 && std::isfinite(options.epsilon), "rmsprop: needs epsilon > 0, got ", options.epsilon);
  rate.base = options.lr;
}

std::vector<std::string> RMSProp::state_names() const {
  if (options_.momentum == 0) return {"square"};
  return {"square", "velocity"};
}

std::vector<std::string> RMSProp::unneeded_state_names() const { return names_if(options_.momentum == 0, {"velocity"}); }

void RMSProp::apply(const std::vector<OptimizerSlot>& slots, const Update& update) const {
  rmsprop_step(slots, {update.learning_rate, options_.average, options_.momentum, options_.epsilon, options_.weight_decay}, update.clip);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options) {
  const auto [lr, momentum, beta1, beta2, epsilon, weight_decay, average] = options;
  if (name == "sgd") return std::make_unique<SGD>(SGD::Options{.lr = lr, .momentum = momentum, .weight_decay = weight_decay});
  if (name == "rmsprop") return std::make_unique<RMSProp>(RMSProp::Options{lr, average, momentum, epsilon, weight_decay});
  if (name == "adam") return std::make_unique<Adam>(Adam::Options{lr, beta1, beta2, epsilon, weight_decay});
  if (name == "adamw") return std::make_unique<AdamW>(AdamW::Options{lr, beta1, beta2, epsilon, weight_decay});
  const std::string nearest = nearest_word(name, {"sgd", "rmsprop", "adam", "adamw"});
  throw UsageError(join("optimizer: needs one of sgd, rmsprop, adam, adamw, got '", name, "'",
                        nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

}  // namespace sluice
