#pragma once

namespace sluice {

/// Seconds on a clock that nobody sets, since some moment before the process began.
/// Threads  any.
double steady_seconds();

}  // namespace sluice
