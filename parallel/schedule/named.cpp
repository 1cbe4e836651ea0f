#include "parallel/schedule/named.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "parallel/schedule/named_orders.h"

namespace sluice::parallel {

namespace {

constexpr std::array<OrderOf, 5> kOrders = {gpipe_order, one_forward_one_backward_order, interleaved_order, zb_h1_order,
                                            zb_v_order};  // as in schedule_names(); forward-only comes behind them

std::size_t index_of(std::string_view name) {
  const auto& names = schedule_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string nearest = nearest_word(name, names);
    throw UsageError(join("schedule: needs gpipe, 1f1b, interleaved, zb-h1, zb-v or forward-only, got '", name, "'; ",
                          nearest.empty() ? "choose one of them" : join("did you mean '", nearest, "'?")));
  }
  return found - names.begin();
}

void require_micro_batches(int micro_batches) {
  require(micro_batches >= 1, "schedule: needs at least one micro-batch, got ", micro_batches, "; set micro_batches to 1 or more");
}

Schedule build(std::string_view name, std::vector<int> device_of_stage, int devices, int micro_batches) {
  const std::size_t index = index_of(name);
  const int virtual_stages = static_cast<int>(device_of_stage.size()) / devices;
  Schedule schedule{std::string(name), micro_batches, std::move(device_of_stage), {}};
  if (index == kOrders.size()) {
    schedule.devices = forward_orders(schedule.device_of_stage, devices, micro_batches);
    return schedule;
  }
  for (int device = 0; device < devices; ++device)
    schedule.devices.push_back(kOrders[index](device, devices, micro_batches, virtual_stages));
  return schedule;
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

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "forward-only"};
  return names;
}

int stages_per_device(std::string_view name, int virtual_stages) {
  index_of(name);
  require(virtual_stages >= 1, "schedule: needs virtual_stages of 1 or more, got ", virtual_stages, "; set virtual_stages to 1");
  if (name == "interleaved" || name == "forward-only") return virtual_stages;
  const int most = name == "zb-v" ? 2 : 1;
  require(virtual_stages <= most, "schedule: ", name, " has ", most, most == 1 ? " stage" : " stages", " a device, got virtual_stages ",
          virtual_stages, "; set virtual_stages to ", most, " or choose interleaved");
  return most;
}

std::vector<int> stage_placement(std::string_view name, int devices, int virtual_stages) {
  const int each = stages_per_device(name, virtual_stages);
  require(devices >= 1, "schedule: needs at least one device, got ", devices, "; give one device or more");
  std::vector<int> device_of_stage(static_cast<std::size_t>(devices) * each);
  for (int stage = 0; stage < static_cast<int>(device_of_stage.size()); ++stage) {
    const bool goes_back = name == "zb-v" && stage >= devices;
    device_of_stage[stage] = goes_back ? 2 * devices - 1 - stage : stage % devices;
  }
  return device_of_stage;
}

Schedule make_schedule(std::string_view name, int devices, int micro_batches, int virtual_stages) {
  require_micro_batches(micro_batches);
  return build(name, stage_placement(name, devices, virtual_stages), devices, micro_batches);
}

Schedule make_schedule(std::string_view name, std::vector<int> device_of_stage, int micro_batches) {
  index_of(name);
  const int devices = devices_of(device_of_stage), stages = static_cast<int>(device_of_stage.size());
  require_micro_batches(micro_batches);
  if (name == "forward-only") return build(name, std::move(device_of_stage), devices, micro_batches);
  const bool has_one_number = stages % devices == 0;
  const auto wanted = stage_placement(name, devices, has_one_number && name == "interleaved" ? stages / devices : 1);
  require(device_of_stage == wanted, "schedule: ", name, " over ", devices, " devices needs its stages on the devices ",
          placement_text(wanted), ", got ", placement_text(device_of_stage), "; place them so or choose another schedule");
  return build(name, std::move(device_of_stage), devices, micro_batches);
}

}  // namespace sluice::parallel
