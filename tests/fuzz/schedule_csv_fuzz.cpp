#include "core/error.h"
#include "parallel/schedule/csv.h"

/// Any text is a schedule that its own table gives back, or a UsageError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace sluice::parallel;
  try {
    const Schedule schedule = parse_schedule_csv({reinterpret_cast<const char*>(bytes), size}, "input");
    const Schedule again = parse_schedule_csv(schedule_csv(schedule), "input");
    if (again.devices != schedule.devices || again.device_of_stage != schedule.device_of_stage) __builtin_trap();
  } catch (const sluice::UsageError&) {
  }
  return 0;
}
