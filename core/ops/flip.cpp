#include "core/ops/flip.h"

namespace sluice {

Tensor flip(const Tensor& x, const std::vector<int>& axes) {
  Tensor view = x;
  for (int axis : axes) view = view.reversed(axis);
  return view.clone();
}

}  // namespace sluice
