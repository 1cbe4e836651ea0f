#include "layers/lambda.h"

namespace sluice::layers {

namespace {

using OfCall = std::function<Var(const Call&)>;

OfCall of_call(std::function<Var(const Var&)> function) {
  if (!function) return {};
  return [function = std::move(function)](const Call& call) { return function(call.inputs[0]); };
}

OfCall of_call(std::function<Var(const Var&, const Var&)> function) {
  if (!function) return {};
  return [function = std::move(function)](const Call& call) { return function(call.inputs[0], call.inputs[1]); };
}

}  // namespace

Lambda::Lambda(std::string name, std::function<Var(const Var&)> function)
    : Lambda(std::move(name), of_call(std::move(function)), InputCount{1, 1}) {}

Lambda::Lambda(std::string name, std::function<Var(const Var&, const Var&)> function)
    : Lambda(std::move(name), of_call(std::move(function)), InputCount{2, 2}) {}

Lambda::Lambda(std::string name, std::function<Var(const Call&)> function, InputCount inputs)
    : name_(std::move(name)), function_(std::move(function)), inputs_(inputs) {
  require(!name_.empty() && function_, "Lambda: needs a name that is not empty and a function, got '", name_, "' and ",
          function_ ? "one" : "none");
}

}  // namespace sluice::layers
