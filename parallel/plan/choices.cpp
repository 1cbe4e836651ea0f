#include "parallel/plan/choices.h"

#include "core/error.h"
#include "parallel/program/schedule_check.h"

namespace sluice::parallel {

namespace {

/// Fixed numbers as they are; open ones as 1, which every schedule can have.
int stages_a_device(const CountChoice& virtual_stages) {
  const int* number = virtual_stages.given();
  require(!number || *number >= 1, "ScheduleChoice::virtual_stages: needs at least one stage a device, got ", number ? *number : 1,
          "; kOpen leaves the number open");
  return number ? *number : 1;
}

}  // namespace

std::string_view name_of(Remat remat) { return remat == Remat::none ? "none" : "full"; }
std::ostream& operator<<(std::ostream& out, Remat remat) { return out << name_of(remat); }

ScheduleChoice::ScheduleChoice(NamedSchedule schedule, CountChoice virtual_stages) : named_(schedule), virtual_stages_(virtual_stages) {
  const int each = stages_a_device(virtual_stages);
  if (schedule == NamedSchedule::interleaved) return;
  const int most = stages_per_device(schedule, 1);
  require(each <= most, "ScheduleChoice::virtual_stages: needs at most ", most, " of ", name_of(schedule), ", got ", each, "; set it to ",
          most, " or choose interleaved");
}

ScheduleChoice::ScheduleChoice(Schedule fixed) : fixed_(std::make_shared<const Schedule>(std::move(fixed))) {
  require_complete(*fixed_, "PlanOptions::schedule");
}

ScheduleChoice::ScheduleChoice(Open, CountChoice virtual_stages) : virtual_stages_(virtual_stages) { stages_a_device(virtual_stages); }

}  // namespace sluice::parallel
