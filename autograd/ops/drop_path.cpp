#include "autograd/ops/drop_path.h"

namespace sluice {

namespace {

struct DropPathAttributes {
  double keep;
  RandomStream stream;
  auto fields() const { return std::tie(keep); }
};

}  // namespace

Var drop_path(const Var& x, double keep, const RandomStream& stream) {
  Tensor y = drop_path(x.value(), keep, stream);
  if (keep == 1) return x;
  return record("drop_path", std::move(y), {x}, {}, DropPathAttributes{keep, stream}, [](const Node& node, const Tensor& dy, Needs) {
    const auto& [keep, stream] = node.attribute<DropPathAttributes>();
    return Gradients{drop_path(dy, keep, stream)};
  });
}

Var drop_path_add(const Var& x, const Var& residual, double keep, const RandomStream& stream) {
  return record("drop_path_add", drop_path_add(x.value(), residual.value(), keep, stream), {x, residual}, {},
                DropPathAttributes{keep, stream}, [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [keep, stream] = node.attribute<DropPathAttributes>();
                  return Gradients{needs[0] ? drop_path(dy, keep, stream) : Tensor(), needs[1] ? dy : Tensor()};
                });
}

}  // namespace sluice
