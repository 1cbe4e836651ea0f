#include "bench/gpu_timing.h"

#include <algorithm>
#include <vector>

#include "core/event.h"
#include "core/ops/copy.h"
#include "core/ops/matmul.h"
#include "core/random.h"

namespace sluice::bench {

Tensor repeated(const Tensor& block, const Shape& shape) {
  const Tensor whole = empty(shape, block.dtype(), block.device_ptr()), flat = whole.reshape({whole.elements()});
  int64_t filled = std::min(block.elements(), flat.elements());
  copy(block.reshape({block.elements()}).slice(0, 0, filled), flat.slice(0, 0, filled));
  for (int64_t more; filled < flat.elements(); filled += more) {
    more = std::min(filled, flat.elements() - filled);
    copy(flat.slice(0, 0, more), flat.slice(0, filled, filled + more));
  }
  return whole;
}

Tensor noise(const Shape& shape, DType dtype, const DevicePtr& device) {
  const Tensor block = empty({std::min<int64_t>(shape.elements(), 1 << 20)}, dtype);
  fill_normal(block, 0, 1, random_key(1, "noise"));
  return repeated(block.to(device), shape);
}

double gpu_seconds(const Device& device, int repeats, const std::function<void()>& prepare, const std::function<void()>& work) {
  constexpr int kWarmUp = 3;
  std::vector<std::pair<Event, Event>> spans;
  for (int i = 0; i < repeats + kWarmUp; ++i) {
    prepare();
    const Event begin = device.record(true);
    work();
    spans.emplace_back(begin, device.record(true));
  }
  wait_until(spans.back().second);
  std::vector<double> seconds;
  for (size_t i = kWarmUp; i < spans.size(); ++i) seconds.push_back(seconds_between(spans[i].first, spans[i].second));
  std::ranges::nth_element(seconds, seconds.begin() + repeats / 2);
  return seconds[repeats / 2];
}

namespace {

double memory_seconds(const Limits& limits, const Cost& cost) { return (cost.bytes_read + cost.bytes_written) / limits.bytes_per_second; }

}  // namespace

bool Limits::is_memory_bound(const Cost& cost) const { return memory_seconds(*this, cost) > cost.flops / flops_per_second; }
double Limits::seconds(const Cost& cost) const { return std::max(cost.flops / flops_per_second, memory_seconds(*this, cost)); }

Limits measured_limits(const DevicePtr& device, DType dtype) {
  constexpr int64_t kEdge = 8192, kBytes = int64_t{1} << 30;
  const auto nothing = [] {};
  const Tensor a = noise({kEdge, kEdge}, dtype, device), b = noise({kEdge, kEdge}, dtype, device);
  const double product_seconds = gpu_seconds(*device, 20, nothing, [&] { matmul(a, b, false, true); });
  const Tensor from = noise({kBytes / 4}, DType::f32, device), to = empty_like(from);
  const double copy_seconds = gpu_seconds(*device, 20, nothing, [&] { copy(from, to); });
  return {2.0 * kEdge * kEdge * kEdge / product_seconds, 2.0 * kBytes / copy_seconds};
}

}  // namespace sluice::bench
