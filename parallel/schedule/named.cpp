#include "parallel/schedule/named.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "parallel/schedule/named_orders.h"

namespace sluice::parallel {

namespace {

struct Named {
  std::string_view name;
  OrderOf order;
};

/// By NamedSchedule.
constexpr std::array<Named, kNamedSchedules.size()> kNamed{{{"gpipe", gpipe_order},
                                                            {"1f1b", one_forward_one_backward_order},
                                                            {"interleaved", interleaved_order},
                                                            {"zb-h1", zb_h1_order},
                                                            {"zb-v", zb_v_order}}};

const Named& named(NamedSchedule schedule) {
  const auto index = static_cast<std::size_t>(schedule);
  require(index < kNamed.size(), "schedule: needs one of NamedSchedule, got number ", static_cast<int>(schedule));
  return kNamed[index];
}

void require_micro_batches(int micro_batches) {
  require(micro_batches >= 1, "schedule: needs at least one micro-batch, got ", micro_batches, "; set micro_batches to 1 or more");
}

Schedule build(NamedSchedule schedule, std::vector<int> device_of_stage, int devices, int micro_batches) {
  require_micro_batches(micro_batches);
  require_few_enough(micro_batches, static_cast<int>(device_of_stage.size()), "schedule");
  const auto& [name, order] = named(schedule);
  const int virtual_stages = static_cast<int>(device_of_stage.size()) / devices;
  Schedule result{std::string(name), micro_batches, std::move(device_of_stage), {}};
  for (int device = 0; device < devices; ++device) result.devices.push_back(order(device, devices, micro_batches, virtual_stages));
  return result;
}

std::string placement_text(const std::vector<int>& device_of_stage) {
  std::string text;
  for (int device : device_of_stage) text += join(text.empty() ? "" : ",", device);
  return "[" + text + "]";
}

/// The number of devices, each of which must have a stage.
int devices_of(const std::vector<int>& device_of_stage) {
  require(!device_of_stage.empty(), "schedule: needs at least one stage, got none; give one device or more");
  const auto [least, most] = std::minmax_element(device_of_stage.begin(), device_of_stage.end());
  const int devices = *most < static_cast<int>(device_of_stage.size()) ? *most + 1 : 0;
  std::vector<bool> used(devices, false);
  for (int device : device_of_stage)
    if (device >= 0 && device < devices) used[device] = true;
  require(*least >= 0 && devices > 0 && std::find(used.begin(), used.end(), false) == used.end(),
          "schedule: needs at least one stage on each device from 0 on, got stages on the devices ", placement_text(device_of_stage),
          "; leave out the devices without a stage");
  return devices;
}

}  // namespace

std::string_view name_of(NamedSchedule schedule) { return named(schedule).name; }
std::ostream& operator<<(std::ostream& out, NamedSchedule schedule) { return out << name_of(schedule); }

NamedSchedule schedule_named(std::string_view word) {
  for (const NamedSchedule schedule : kNamedSchedules)
    if (name_of(schedule) == word) return schedule;
  std::vector<std::string> names;
  for (const Named& known : kNamed) names.emplace_back(known.name);
  const std::string nearest = nearest_word(word, names);
  throw UsageError(join("schedule: needs gpipe, 1f1b, interleaved, zb-h1 or zb-v, got '", word, "'; ",
                        nearest.empty() ? "choose one of them" : join("did you mean '", nearest, "'?")));
}

int stages_per_device(NamedSchedule schedule, int virtual_stages) {
  require(virtual_stages >= 1, "schedule: needs virtual_stages of 1 or more, got ", virtual_stages, "; set virtual_stages to 1");
  if (schedule == NamedSchedule::interleaved) return virtual_stages;
  const int most = schedule == NamedSchedule::zb_v ? 2 : 1;
  require(virtual_stages <= most, "schedule: ", name_of(schedule), " has ", most, most == 1 ? " stage" : " stages",
          " a device, got virtual_stages ", virtual_stages, "; set virtual_stages to ", most, " or choose interleaved");
  return most;
}

std::vector<int> stage_placement(NamedSchedule schedule, int devices, int virtual_stages) {
  const int each = stages_per_device(schedule, virtual_stages);
  require(devices >= 1, "schedule: needs at least one device, got ", devices, "; give one device or more");
  std::vector<int> device_of_stage(static_cast<std::size_t>(devices) * each);
  for (int stage = 0; stage < static_cast<int>(device_of_stage.size()); ++stage) {
    const bool goes_back = schedule == NamedSchedule::zb_v && stage >= devices;
    device_of_stage[stage] = goes_back ? 2 * devices - 1 - stage : stage % devices;
  }
  return device_of_stage;
}

Schedule make_schedule(NamedSchedule schedule, int devices, int micro_batches, int virtual_stages) {
  return build(schedule, stage_placement(schedule, devices, virtual_stages), devices, micro_batches);
}

Schedule make_schedule(NamedSchedule schedule, std::vector<int> device_of_stage, int micro_batches) {
  const int devices = devices_of(device_of_stage), stages = static_cast<int>(device_of_stage.size());
  const bool has_one_number = stages % devices == 0;
  const auto wanted = stage_placement(schedule, devices, has_one_number && schedule == NamedSchedule::interleaved ? stages / devices : 1);
  require(device_of_stage == wanted, "schedule: ", name_of(schedule), " over ", devices, " devices needs its stages on the devices ",
          placement_text(wanted), ", got ", placement_text(device_of_stage), "; place them so or choose another schedule");
  return build(schedule, std::move(device_of_stage), devices, micro_batches);
}

Schedule forward_schedule(std::vector<int> device_of_stage, int micro_batches) {
  const int devices = devices_of(device_of_stage);
  require_micro_batches(micro_batches);
  require_few_enough(micro_batches, static_cast<int>(device_of_stage.size()), "schedule");
  Schedule result{"forward-only", micro_batches, std::move(device_of_stage), {}};
  result.devices = forward_orders(result.device_of_stage, devices, micro_batches);
  return result;
}

}  // namespace sluice::parallel
