#include "core/moment.h"

#include "build_config.h"
#include "core/cuda/event.h"

namespace sluice {

bool has_passed(const Moment& moment) {
  if constexpr (build::has_cuda) return !moment || moment->has_passed();
  return true;
}

void wait_until([[maybe_unused]] const Moment& moment) {
  if constexpr (build::has_cuda)
    if (moment) moment->wait();
}

double seconds_between([[maybe_unused]] const Moment& earlier, [[maybe_unused]] const Moment& later) {
  if constexpr (build::has_cuda) return later->seconds_since(*earlier);
  return 0;
}

}  // namespace sluice
