#include "layers/upsample.h"

#include "autograd/ops/resize.h"
#include "autograd/ops/upsample.h"

namespace sluice::layers {

Upsample::Upsample(int64_t factor, Kind kind) : factor_(factor), kind_(kind) {
  require(factor >= 1, "Upsample: needs a factor of at least 1, got ", factor);
}

Var Upsample::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(x.shape().rank() == 4, "Upsample: needs images [batch, height, width, channels], got ", x.shape());
  if (kind_ == Kind::bilinear) return resize2d(x, factor_ * x.dim(1), factor_ * x.dim(2));
  return upsample2d(x, factor_, factor_ * x.dim(1), factor_ * x.dim(2));
}

}  // namespace sluice::layers
