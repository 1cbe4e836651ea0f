#include "core/ops/one_hot.h"

#include "core/ops/copy.h"
#include "core/ops/gather.h"

namespace sluice {

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  require(!is_floating(index.dtype()), "one_hot: needs an index of an integer dtype, got ", index);
  const Shape shape = index.shape().appended(classes);
  const Tensor ones = full({index.elements(), 1}, 1, compute_dtype(dtype), index.device_ptr());
  const Tensor places = index.contiguous().reshape({index.elements(), 1});
  return cast(gather_backward(ones, 1, places, classes), dtype).reshape(shape);
}

}  // namespace sluice
