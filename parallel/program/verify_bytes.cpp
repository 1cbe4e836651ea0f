#include "parallel/program/replay.h"
#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

std::optional<Violation> check_transfers(const Trial& trial) {
  const Program& program = trial.program;
  const Messages messages(program);
  std::vector<const Action*> first(messages.count(), nullptr);  // whichever end the lists have first
  for (int device = 0; device < program.device_count(); ++device)
    for (int index = 0; index < static_cast<int>(program.devices[device].size()); ++index) {
      const Action& action = program.devices[device][index];
      if (action.kind != ActionKind::send && action.kind != ActionKind::recv) continue;
      const int message = messages.of(device, index);
      if (action.bytes < 0) return trial.violation(device, index, "has ", action.bytes, " bytes: a transfer has none or more");
      if (!first[message]) first[message] = &action;
      if (first[message]->bytes == action.bytes) continue;
      return trial.violation(device, index, "has ", action.bytes, " bytes, and the other end, ", describe(*first[message], trial.topology),
                             ", has ", first[message]->bytes, ": both ends of a transfer are of one shape");
    }
  return {};
}

std::optional<Violation> check_budgets(const Trial& trial, const std::vector<int64_t>& budgets) {
  const Program& program = trial.program;
  require(static_cast<int>(budgets.size()) == program.device_count(), "verify: needs a budget for each of ", program.device_count(),
          " devices or none, got ", budgets.size(), "; give all or none");
  if (!program.is_counted) return Violation{-1, -1, "the program has no bytes to hold against the budgets: it must be counted first"};
  for (int device = 0; device < program.device_count(); ++device)
    for (int index = 0; index < static_cast<int>(program.devices[device].size()); ++index)
      if (const int64_t peak = program.devices[device][index].peak_bytes; peak > budgets[device])
        return trial.violation(device, index, "needs ", peak, " bytes, and the device's budget is ", budgets[device],
                               " bytes: a device never holds more than its budget");
  return {};
}

}  // namespace sluice::parallel
