#include "parallel/plan/compare.h"

#include <algorithm>
#include <exception>

#include "parallel/plan/choose.h"
#include "parallel/plan/replicas.h"

namespace sluice::parallel {

namespace {

template <class Part>
int64_t most(const Prediction& prediction, Part part) {
  int64_t largest = 0;
  for (const DevicePrediction& device : prediction.devices) largest = std::max(largest, device.*part);
  return largest;
}

}  // namespace

int64_t ComparedLayout::sent_bytes() const {
  int64_t sum = 0;
  for (const DevicePrediction& device : prediction.devices) sum += device.sent_bytes;
  return sum;
}

int64_t ComparedLayout::most_sent_bytes() const { return most(prediction, &DevicePrediction::sent_bytes); }

int64_t ComparedLayout::peak_bytes() const { return most(prediction, &DevicePrediction::peak_bytes); }

std::vector<ComparedLayout> compare_layouts(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options,
                                            const DeviceSpeeds& speeds) {
  const int count = static_cast<int>(devices.size());
  const auto with = [&](CountChoice replicas, bool shards_optimizer) {
    PlanOptions own = options;
    own.replicas = replicas;
    own.shards_optimizer = shards_optimizer;
    return own;
  };
  std::vector<ComparedLayout> layouts;
  std::exception_ptr refusal;
  const auto add = [&](std::string_view name, const auto& make) {
    ComparedLayout& layout = layouts.emplace_back(ComparedLayout{name});
    try {
      layout.plan = make();
      layout.prediction = predict(graph, layout.plan, optimizer_of(options), options.batch, speeds);
    } catch (const UsageError& error) {
      layout.refusal = error.what();
      if (!refusal) refusal = std::current_exception();
    }
  };
  add("pipeline", [&] { return plan(graph, devices, with(1, true)); });
  if (count > 1) {
    add("data", [&] { return plan(graph, devices, with(count, false)); });
    add("sharded", [&] {
      const Optimizer& optimizer = optimizer_of(options);
      require(!optimizer.needs_whole_parameters(), optimizer.name(), " steps whole parameters, so every replica needs its states");
      return plan(graph, devices, with(count, true));
    });
  }
  if (replica_numbers(count).size() > 2)
    add("mixed", [&] { return plan_of_open_replicas(graph, devices, with(kOpen, true), 2, count - 1); });
  if (std::ranges::none_of(layouts, [](const ComparedLayout& layout) { return layout.refusal.empty(); })) std::rethrow_exception(refusal);
  return layouts;
}

}  // namespace sluice::parallel
