#pragma once

namespace sluice::cli {

/// From here on SIGINT and SIGTERM ask the program to end after the current step; the second one ends it at once.
void watch_signals();
/// The signal that came, or 0.
int caught_signal();

}  // namespace sluice::cli
