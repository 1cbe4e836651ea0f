#pragma once
#include <functional>

#include "layers/module.h"

namespace sluice::layers {

/// A function as a layer without parameters:
///   graph.add("doubled", Lambda("double", [](const Var& x) { return 2 * x; }), x)
/// The function is called for each micro-batch, from any device's thread, at the same time too, and again in recomputation: its value must
/// be made of its arguments alone. Random numbers come from Call::random. One that mixes tokens, as a cumsum over them does, serves whole
/// sequences, not generation token by token (training::Decoder).
/// `name` stands in messages and in the model's digest (model_digest.h), also within a Sequence. Of two functions of one name, the digest
/// tells only the ops apart that they record, the shapes that these save and the numbers that their gradients read: a name should say the
/// others, such as one that is added.
/// Errors  UsageError for an empty name or no function.
class Lambda : public Module {
 public:
  Lambda(std::string name, std::function<Var(const Var&)> function);
  Lambda(std::string name, std::function<Var(const Var&, const Var&)> function);
  Lambda(std::string name, std::function<Var(const Call&)> function, InputCount inputs);
  InputCount input_count() const override { return inputs_; }
  std::string label() const override { return name_; }
  Var forward(const Call& call) const override { return function_(call); }

 private:
  std::string name_;
  std::function<Var(const Call&)> function_;
  InputCount inputs_;
};

}  // namespace sluice::layers
