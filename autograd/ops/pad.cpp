#include "autograd/ops/pad.h"

namespace sluice {

Var pad(const Var& x, const PadWidths& widths, double value) {
  return record_moved("pad", pad(x.value(), widths, value), {x}, widths,
                      [](const Node& node, const Tensor& dy, Needs) { return Gradients{unpadded(dy, node.attribute<PadWidths>())}; });
}

}  // namespace sluice
