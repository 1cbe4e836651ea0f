#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/run/trace.h"
#include "training/report/svg.h"

/// Plots of one step, one row a device, over one axis of time.
namespace sluice::training {

struct TimelineOptions {
  std::string title;
  double seconds = 0;  ///< end of the axis; 0 = the step's. Plots with one end can be compared
};

/// Forwards (F), backwards (B, or I and W), recomputation (R), the end of the step and transfers, in colours that colour-blind people tell
/// apart. Numbers of micro-batches stand where they fit; of narrow boxes in a row, every n-th has one. A device's later chunks of the
/// model are lighter. Transfers are left out of plots with many.
Svg timeline_plot(const parallel::Trace& trace, const TimelineOptions& options);

/// Live bytes of every device after each of its actions, with their peak, against the budget.
Svg memory_timeline_plot(const parallel::Trace& trace, const std::vector<int64_t>& budget_bytes, const TimelineOptions& options);

/// "F", "B", "I", "W", "R", "S" for the end of a step; "" for a transfer.
std::string letter_of(parallel::ActionKind kind);

}  // namespace sluice::training
