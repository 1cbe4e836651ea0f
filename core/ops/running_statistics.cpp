#include "core/ops/running_statistics.h"

#include <algorithm>

#include "core/dispatch.h"

namespace sluice {

namespace {

constexpr const char* kOp = "update_running_statistics";

void check(const RunningUpdate& of, DType dtype) {
  require(!of.parts.empty() && of.momentum >= 0 && of.momentum <= 1, kOp, ": needs parts and a momentum in [0, 1], got ", of.parts.size(),
          " parts and ", of.momentum);
  require((dtype == DType::f32 || dtype == DType::f64) && of.mean.dtype() == dtype, kOp, ": needs f32 or f64, one for all, got ", of.mean);
  const auto check_like = [&](const char* what, const Tensor& x) {
    require(x.shape() == of.mean.shape() && x.dtype() == dtype && x.is_contiguous(), kOp, ": needs ", what,
            " like the running mean, contiguous: ", of.mean, ", got ", x);
  };
  check_like("a running variance", of.variance);
  for (const auto& part : of.parts) {
    check_like("means", part.mean);
    check_like("variances", part.variance);
    require(part.count >= 1, kOp, ": needs parts of at least one number a channel, got ", part.count);
  }
}

Cost cost_of(const RunningUpdate& of) {
  const double bytes = 2 * static_cast<double>(of.mean.bytes()), count = static_cast<double>(of.parts.size());
  return {10 * count * static_cast<double>(of.mean.elements()), (count + 1) * bytes, bytes};
}

}  // namespace

void update_running_statistics(const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares) {
  if (updates.empty()) return;
  Cost cost;
  int64_t channels = 0;
  std::vector<Operand> operands{sum_of_squares};
  for (const RunningUpdate& update : updates) {
    check(update, updates[0].mean.dtype());
    cost += cost_of(update);
    channels = std::max(channels, update.mean.elements());
    operands.insert(operands.end(), {update.mean, update.variance});
    for (const auto& part : update.parts) operands.insert(operands.end(), {part.mean, part.variance});
  }
  const DevicePtr& device = updates[0].mean.device_ptr();
  Tensor totals;
  if (device->backend() == DeviceKind::cuda) totals = empty({3, channels}, DType::f64, device);
  run_kernel(kOp, operands, cost, [&](auto& context) { kernels::update_running_statistics(context, updates, sum_of_squares, totals); });
}

}  // namespace sluice
