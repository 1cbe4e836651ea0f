#include "cli/signals.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

namespace sluice::cli {

namespace {

// Lock-free, as a handler needs, and other than sig_atomic_t readable by other threads.
std::atomic<int> caught = 0;
std::atomic<int64_t> caught_at_ms = 0;
std::atomic<bool> ends_at_once = false;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // one of the few functions that a handler may call
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void on_signal(int number) {
  if (ends_at_once) _exit(128 + number);
  int none = 0;
  if (caught.compare_exchange_strong(none, number)) {
    caught_at_ms = now_ms();
    return;
  }
  const bool is_repeated = number == none && (number == SIGINT || number == SIGTERM);
  const bool is_impatient = is_repeated && caught_at_ms != 0 && now_ms() - caught_at_ms >= 1000;
  if (is_impatient) _exit(128 + number);
}

bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void ignore_output_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU})
    if (number != SIGHUP || !is_ignored(number)) sigaction(number, &action, nullptr);
}

int caught_signal() { return caught; }

EndAtOnce::EndAtOnce() {
  ends_at_once = true;
  if (caught != 0) _exit(128 + caught);  // since the caller looked
}
EndAtOnce::~EndAtOnce() { ends_at_once = false; }

}  // namespace sluice::cli
