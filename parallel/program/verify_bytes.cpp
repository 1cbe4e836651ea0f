#include "parallel/program/program_bytes.h"
#include "parallel/program/replay.h"
#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

std::optional<Violation> check_transfers(const Trial& trial) {
  const Program& program = trial.program;
  const Messages messages(program);
  std::vector<const Action*> first(messages.count(), nullptr);  // whichever action the lists have first
  for (int device = 0; device < program.device_count(); ++device)
    for (int index = 0; index < static_cast<int>(program.devices[device].size()); ++index) {
      const Action& action = program.devices[device][index];
      const int message = messages.of(device, index);
      if (message < 0) continue;
      if (action.bytes < 0) return trial.violation(device, index, "has ", action.bytes, " bytes: a transfer has none or more");
      if (!first[message]) first[message] = &action;
      if (first[message]->bytes == action.bytes) continue;
      return trial.violation(device, index, "has ", action.bytes, " bytes, and ", describe(*first[message], trial.topology), ", has ",
                             first[message]->bytes, ": both ends of a transfer are of one shape");
    }
  return {};
}

std::optional<Violation> check_budgets(const Trial& trial, const ProgramBytes& bytes) {
  if (bytes.budget.empty()) return {};
  require(static_cast<int>(bytes.budget.size()) == trial.program.device_count(), "verify: needs a budget for each of ",
          trial.program.device_count(), " devices or none, got ", bytes.budget.size(), "; give all or none");
  for (int device = 0; device < trial.program.device_count(); ++device) {
    const auto held = bytes_of(trial.program, bytes, device);
    for (int index = 0; index < static_cast<int>(held.size()); ++index)
      if (held[index].peak > bytes.budget[device])
        return trial.violation(device, index, "needs ", held[index].peak, " bytes, and the device's budget is ", bytes.budget[device],
                               " bytes: a device never holds more than its budget");
  }
  return {};
}

}  // namespace sluice::parallel
