#pragma once

namespace sluice::cli {

/// From here on output to a closed pipe, and files beyond the limit of their size, are errors of the write and do not end the program.
void ignore_output_signals();

/// From here on SIGHUP, SIGINT, SIGTERM, SIGUSR1 and SIGXCPU ask the program to save and end after the current step. A SIGINT after
/// a SIGINT, or a SIGTERM after a SIGTERM, ends it at once when a second or more lies between them: timeout(1) and closed terminals send
/// theirs twice in a row. A SIGHUP that nohup(1) has turned off stays off.
void watch_signals();
/// The first signal that came, or 0.
int caught_signal();

/// While it lives, any of these signals ends the program at once, also one that was caught before: for long work that has nothing to lose.
class EndAtOnce {
 public:
  EndAtOnce();
  ~EndAtOnce();
  EndAtOnce(const EndAtOnce&) = delete;
  EndAtOnce& operator=(const EndAtOnce&) = delete;
};

}  // namespace sluice::cli
