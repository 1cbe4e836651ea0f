#include "core/ops/running_statistics.h"

#include "core/dispatch.h"

namespace sluice {

void update_running_statistics(const Tensor& running_mean, const Tensor& running_variance, const std::vector<BatchMoments>& parts,
                               double momentum, const Tensor& sum_of_squares) {
  constexpr const char* kOp = "update_running_statistics";
  require(!parts.empty() && momentum >= 0 && momentum <= 1, kOp, ": needs parts and a momentum in [0, 1], got ", parts.size(),
          " parts and ", momentum);
  require(running_mean.dtype() == DType::f32 || running_mean.dtype() == DType::f64, kOp, ": needs f32 or f64, got ", running_mean);
  const auto check = [&](const char* what, const Tensor& x) {
    require(x.shape() == running_mean.shape() && x.dtype() == running_mean.dtype() && x.is_contiguous(), kOp, ": needs ", what,
            " like the running mean, contiguous: ", running_mean, ", got ", x);
  };
  check("a running variance", running_variance);
  for (const auto& part : parts) {
    check("means", part.mean);
    check("variances", part.variance);
    require(part.count >= 1, kOp, ": needs parts of at least one number a channel, got ", part.count);
  }
  Tensor totals;
  if (running_mean.device().backend() == DeviceKind::cuda)
    totals = empty({3, running_mean.elements()}, DType::f64, running_mean.device_ptr());
  const double bytes = 2 * static_cast<double>(running_mean.bytes()), count = static_cast<double>(parts.size());
  std::vector<Operand> operands{running_mean, running_variance, sum_of_squares};
  for (const auto& part : parts) operands.insert(operands.end(), {part.mean, part.variance});
  run_kernel(kOp, operands, {10 * count * static_cast<double>(running_mean.elements()), (count + 1) * bytes, bytes}, [&](auto& context) {
    kernels::update_running_statistics(context, running_mean, running_variance, parts, momentum, sum_of_squares, totals);
  });
}

}  // namespace sluice
