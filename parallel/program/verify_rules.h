#pragma once
#include <optional>

#include "core/error.h"
#include "parallel/program/dataflow.h"
#include "parallel/program/verify.h"

namespace sluice::parallel {

/// A program on trial, with what its model and partition ask of it. The rules below are checked in their order, and each may
/// rely on those before it.
struct Trial {
  const Topology& topology;
  const Program& program;
  const Dataflow& flow;

  /// "<action> on device <device> <parts>".
  template <class... Parts>
  Violation violation(int device, int index, const Parts&... parts) const {
    return missing(device, index, program.devices[device][index], parts...);
  }
  /// The same for an action that stands nowhere.
  template <class... Parts>
  Violation missing(int device, int index, const Action& action, const Parts&... parts) const {
    return {device, index, join(describe(action, topology), " on device ", device, " ", parts...)};
  }
};

/// Each device has exactly the actions that the model asks of it, in any order.
std::optional<Violation> check_actions(const Trial& trial);
/// All actions of a transfer have equal bytes.
std::optional<Violation> check_transfers(const Trial& trial);
/// Each micro-batch goes F < [R] < B or I < W, gradients accumulate in ascending micro-batch order, the step comes last.
std::optional<Violation> check_order(const Trial& trial);
/// RecvPost comes before Recv, Send before SendWait, and the two ends of a channel have one order.
std::optional<Violation> check_channels(const Trial& trial);
/// What an action uses is there: made or received before, not yet freed; and all is freed once.
std::optional<Violation> check_buffers(const Trial& trial);
/// All lists run to their ends under the strict rule (Deliveries).
std::optional<Violation> check_progress(const Trial& trial);
/// The program is counted, and no device holds more than its budget.
std::optional<Violation> check_budgets(const Trial& trial, const std::vector<int64_t>& budgets);

}  // namespace sluice::parallel
