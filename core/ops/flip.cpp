#include "core/ops/flip.h"

#include "core/ops/comparison.h"
#include "core/ops/elementwise.h"
#include "core/ops/gather.h"
#include "core/ops/padding.h"
#include "core/ops/ramp.h"
#include "core/ops/select.h"

namespace sluice {

Tensor flip(const Tensor& x, const std::vector<int>& axes) {
  Tensor view = x;
  for (int axis : axes) view = view.reversed(axis);
  return view.clone();
}

Tensor flip_items(const Tensor& x, const Tensor& lengths) {
  require(x.rank() >= 2, "flip_items: needs x [B, T, ...], got ", x.shape());
  check_lengths("flip_items", lengths, x.dim(0));
  const Tensor item = arange(0, static_cast<double>(x.dim(1)), 1, DType::i32, x.device_ptr());
  const Tensor counts = lengths.contiguous().reshape({x.dim(0), 1});
  Tensor from = where(less(item, counts), sub(sub(counts, 1), item), item);
  for (int axis = 2; axis < x.rank(); ++axis) from = from.unsqueeze(axis);
  return gather(x, 1, from.expand(x.shape()));
}

}  // namespace sluice
