#include "parallel/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"

namespace sluice::parallel {

namespace {

using Order = std::vector<ComputeAction>;

Order forward_only(int stage, int, int micro_batches) {
  Order order;
  for (int m = 0; m < micro_batches; ++m) order.push_back({Compute::forward, stage, m});
  return order;
}

Order gpipe(int stage, int stages, int micro_batches) {
  Order order = forward_only(stage, stages, micro_batches);
  for (int m = 0; m < micro_batches; ++m) order.push_back({Compute::backward, stage, m});
  return order;
}

/// Once the warm-up has filled the stages behind this one, each forward is paid for by a backward.
Order one_forward_one_backward(int stage, int stages, int micro_batches) {
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  Order order = forward_only(stage, stages, warm_up);
  for (int m = warm_up; m < micro_batches; ++m) {
    order.push_back({Compute::forward, stage, m});
    order.push_back({Compute::backward, stage, m - warm_up});
  }
  for (int m = micro_batches - warm_up; m < micro_batches; ++m) order.push_back({Compute::backward, stage, m});
  return order;
}

constexpr std::array kBuilders = {gpipe, one_forward_one_backward, forward_only};  // as in schedule_names()

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"gpipe", "1f1b", "forward-only"};
  return names;
}

Schedule make_schedule(std::string_view name, int stages, int micro_batches) {
  const auto& names = schedule_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string nearest = nearest_word(name, names);
    throw UsageError(join("schedule: needs gpipe, 1f1b or forward-only, got '", name, "'; ",
                          nearest.empty() ? "choose one of them" : join("did you mean '", nearest, "'?")));
  }
  require(stages >= 1, "schedule: needs at least one stage, got ", stages, "; give one device or more");
  require(micro_batches >= 1, "schedule: needs at least one micro-batch, got ", micro_batches, "; set micro_batches to 1 or more");

  Schedule schedule{std::string(name), micro_batches, std::vector<int>(stages), {}};
  std::iota(schedule.device_of_stage.begin(), schedule.device_of_stage.end(), 0);
  for (int stage = 0; stage < stages; ++stage) schedule.devices.push_back(kBuilders[found - names.begin()](stage, stages, micro_batches));
  return schedule;
}

}  // namespace sluice::parallel
