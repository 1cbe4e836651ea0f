#include "core/event.h"

#include "build_config.h"
#include "core/cuda/event.h"

namespace sluice {

bool has_passed(const Event& event) {
  if constexpr (build::has_cuda) return !event || event->has_passed();
  return true;
}

void wait_until([[maybe_unused]] const Event& event) {
  if constexpr (build::has_cuda)
    if (event) event->wait();
}

double seconds_between([[maybe_unused]] const Event& earlier, [[maybe_unused]] const Event& later) {
  if constexpr (build::has_cuda) return later->seconds_since(*earlier);
  return 0;
}

}  // namespace sluice
