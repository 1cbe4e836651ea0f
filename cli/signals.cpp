#include "cli/signals.h"

#include <unistd.h>

#include <csignal>

namespace sluice::cli {

namespace {

volatile std::sig_atomic_t caught = 0;

extern "C" void on_signal(int number) {
  if (caught != 0) _exit(128 + number);
  caught = number;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int caught_signal() { return caught; }

}  // namespace sluice::cli
