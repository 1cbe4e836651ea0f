#include "autograd/ops/roll.h"

#include <algorithm>

namespace sluice {

namespace {

struct RollAttributes {
  std::vector<int64_t> shifts;
  std::vector<int> axes;
  auto fields() const { return std::tie(shifts, axes); }
};

}  // namespace

Var roll(const Var& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes) {
  return record_moved("roll", roll(x.value(), shifts, axes), {x}, RollAttributes{shifts, axes},
                      [](const Node& node, const Tensor& dy, Needs) {
                        auto [shifts, axes] = node.attribute<RollAttributes>();
                        for (size_t i = 0; i < axes.size(); ++i)
                          shifts[i] = -(shifts[i] % std::max<int64_t>(1, dy.dim(axes[i])));  // -2^63 has no negative
                        return Gradients{roll(dy, shifts, axes)};
                      });
}

}  // namespace sluice
