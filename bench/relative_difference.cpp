#include "bench/relative_difference.h"

#include <cmath>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/sums_of_squares.h"

namespace sluice::bench {

double relative_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const DType dtype = compute_dtype(a[i].dtype());
    const Tensor reference = cast(b[i], dtype);
    difference += sum_of_squares(sub(cast(a[i], dtype), reference)).item();
    norm += sum_of_squares(reference).item();
  }
  return std::sqrt(difference / norm);
}

}  // namespace sluice::bench
