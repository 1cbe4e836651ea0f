#include "core/graph_scope.h"

#include "build_config.h"
#include "core/cuda/cuda.h"

namespace sluice {

GraphScope::GraphScope([[maybe_unused]] Device& device, [[maybe_unused]] bool wanted, [[maybe_unused]] int64_t place) {
  if constexpr (build::has_cuda)
    if (wanted && device.kind() == DeviceKind::cuda) {
      capture_ = &device.cuda().graphs();
      capture_->open(place);
    }
}

GraphScope::~GraphScope() {
  if constexpr (build::has_cuda)
    if (capture_) capture_->close();
}

void GraphScope::launch() {
  if constexpr (build::has_cuda)
    if (capture_) capture_->launch();
}

GraphCounts graph_counts([[maybe_unused]] Device& device) {
  if constexpr (build::has_cuda)
    if (device.kind() == DeviceKind::cuda) return device.cuda().graphs().counts();
  return {};
}

}  // namespace sluice
