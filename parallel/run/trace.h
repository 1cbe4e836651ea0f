#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

struct TraceEvent {
  int device = 0;
  Action action;     ///< of the program
  double start = 0;  ///< seconds since the step began
  double end = 0;
  int64_t live_bytes = 0;  ///< of the device after the action and what it frees; Action::live_bytes is what was counted
};

/// What each device did in one step, and when.
struct Trace {
  std::vector<std::string> device_names;
  std::vector<TraceEvent> events;  ///< by device, in order of time
  double seconds = 0;              ///< of the step

  /// 1 - mean over devices of the time spent in compute actions / the step's time.
  double bubble() const;
};

/// Chrome's trace format, which Perfetto opens: one row a device, one box an action, an arrow for each transfer, a curve of live bytes.
/// Of the posts of receives and the ends of sends it shows those that took 20 microseconds or more.
/// A prediction is a process of its own above the measured one.
/// Source  "Trace Event Format", complete events (X), flow events (s, f) and counters (C); times in microseconds.
std::string chrome_trace(const Trace& trace, const Topology& topology, const Trace& predicted = {});

}  // namespace sluice::parallel
