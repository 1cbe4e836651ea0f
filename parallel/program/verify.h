#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// Why a program is refused: which action on which device breaks which rule.
struct Violation {
  int device = -1;
  int index = -1;      ///< position of the action in the device's list; -1 when an action is missing
  std::string reason;  ///< one sentence: action, device, micro-batch, rule
};

/// Proves, before anything runs, that
///   each (stage, micro-batch) has exactly one forward and, in training, one backward (B, or I and W), in dependency order F < [R] < I < W;
///   every value and gradient that an action needs is there (made by the stage, received, and not yet freed);
///   every Send has one Recv with the equal key, micro-batch and bytes, and between devices a RecvPost and a SendWait; none is left over;
///   the receives of a channel (the transfers from one device to another) are posted in the order of its sends;
///   no deadlock: all devices' lists can be run to their ends when a transfer begins only after its Send, its RecvPost and the ends of all
///   that its channel sends before, and Recv and SendWait wait for its end. So nothing needs to buffer a message;
///   nothing is used after it is freed, freed twice or never freed, and what is sent stays until its SendWait;
///   each stage accumulates its gradients in ascending micro-batch order, and the step comes after the last of them, after the
///   reduction of tied parameters, after the global norm and after the running statistics, which each stage that has some commits once;
///   with `budgets`, bytes by device: at no action of the program, which is counted, a device holds more than its budget.
/// Returns nothing when the program is right, else the first violation.
/// Errors  UsageError for another number of budgets than devices.
std::optional<Violation> verify(const Topology& topology, const Program& program, const std::vector<int64_t>& budgets = {});

/// The last rule alone, for a program that is proved.
std::optional<Violation> verify_budgets(const Topology& topology, const Program& program, const std::vector<int64_t>& budgets);

/// Throws UsageError with the violation's reason; budgets are not looked at.
void require_valid(const Topology& topology, const Program& program);

}  // namespace sluice::parallel
