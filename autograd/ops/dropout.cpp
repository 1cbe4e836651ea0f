#include "autograd/ops/dropout.h"

namespace sluice {

namespace {

struct DropoutAttributes {
  double p;
  RandomStream stream;
  auto fields() const { return std::tie(p); }
};

}  // namespace

Var dropout(const Var& x, double p, const RandomStream& stream) {
  Tensor y = dropout(x.value(), p, stream);
  if (p == 0) return x;
  return record("dropout", std::move(y), {x}, {}, DropoutAttributes{p, stream}, [](const Node& node, const Tensor& dy, Needs) {
    const auto& [p, stream] = node.attribute<DropoutAttributes>();
    return Gradients{dropout(dy, p, stream)};
  });
}

Var dropout_add(const Var& x, const Var& residual, double p, const RandomStream& stream) {
  return record("dropout_add", dropout_add(x.value(), residual.value(), p, stream), {x, residual}, {}, DropoutAttributes{p, stream},
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [p, stream] = node.attribute<DropoutAttributes>();
                  return Gradients{needs[0] ? dropout(dy, p, stream) : Tensor(), needs[1] ? dy : Tensor()};
                });
}

}  // namespace sluice
