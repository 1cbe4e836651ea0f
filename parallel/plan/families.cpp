#include "parallel/plan/search.h"
#include "parallel/schedule/named.h"

namespace sluice::parallel {

int stages_of(const ScheduleFamily& family, int devices) {
  if (family.orders) return family.orders->stage_count();
  return static_cast<int>(stage_placement(family.named(), devices, family.virtual_stages).size());
}

std::vector<ScheduleFamily> all_schedule_families(int devices, int nodes) {
  if (devices == 1) return {{"1f1b"}, {"gpipe"}};
  std::vector<ScheduleFamily> families{{"1f1b"}, {"zb-h1"}, {"auto", 1, "1f1b"}};
  if (nodes >= 2 * devices) {
    families.push_back({"zb-v"});
    families.push_back({"auto", 2, "zb-v"});
  }
  for (int stages = 2; stages <= kMostVirtualStages && nodes >= stages * devices; ++stages) families.push_back({"interleaved", stages});
  return families;
}

}  // namespace sluice::parallel
