#include "core/ops/embedding.h"

#include <bit>

#include "core/dispatch.h"

namespace sluice {

Tensor embedding(const Tensor& ids, const Tensor& table) {
  require(table.rank() == 2, "embedding: needs a table [V, D], got ", table);
  require(!is_floating(ids.dtype()), "embedding: needs ids of an integer dtype, got ", ids);
  const Tensor positions = ids.contiguous(), rows = table.contiguous();
  const Tensor y = empty(ids.shape().appended(table.dim(1)), table.dtype(), table.device_ptr());
  const auto bytes = static_cast<double>(y.bytes());
  run_kernel("embedding", {positions, rows}, {0, bytes + static_cast<double>(ids.bytes()), bytes},
             [&](auto& context) { kernels::embedding(context, positions, rows, y); });
  return y;
}

Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocabulary) {
  const Tensor sums = zeros({vocabulary, dy.dim(-1)}, compute_dtype(dy.dtype()), dy.device_ptr());
  embedding_backward_into(ids, dy, sums);
  return sums;
}

void embedding_backward_into(const Tensor& ids, const Tensor& dy, const Tensor& sums) {
  require(!is_floating(ids.dtype()) && dy.rank() >= 1 && dy.shape().without(-1) == ids.shape(),
          "embedding: needs a gradient [..., D] with a row for each id, got ", dy, " for ids ", ids);
  require(sums.rank() == 2 && sums.dim(1) == dy.dim(-1) && sums.is_contiguous() && sums.dtype() == compute_dtype(dy.dtype()),
          "embedding: needs row-major sums of ", name_of(compute_dtype(dy.dtype())), " [V, ", dy.dim(-1), "], got ", sums);
  const Tensor positions = ids.contiguous(), rows = dy.contiguous();
  Tensor sorted_ids;
  if (dy.device().backend() == DeviceKind::cuda)
    sorted_ids = empty({static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ids.elements())))}, DType::i64, dy.device_ptr());
  const auto bytes = static_cast<double>(dy.bytes());
  run_kernel("embedding_backward", {positions, rows, sums},
             {static_cast<double>(dy.elements()), 2 * bytes + static_cast<double>(ids.bytes()), bytes},
             [&](auto& context) { kernels::embedding_backward(context, positions, rows, sorted_ids, sums); });
}

}  // namespace sluice
