#include "parallel/plan/model_costs.h"

#include "core/device_speeds.h"
#include "parallel/plan/node_bytes.h"

namespace sluice::parallel {

std::vector<DevicePtr> one_of_each_kind(const std::vector<DevicePtr>& devices) {
  const auto kinds = device_kinds(devices);
  std::vector<DevicePtr> first;
  for (size_t device = 0; device < devices.size(); ++device)
    if (kinds[device] == static_cast<int>(first.size())) first.push_back(devices[device]);
  return first;
}

std::vector<NodeTimes> node_times(const layers::Graph& graph, const PlanOptions& options, const DevicePtr& device, int64_t samples,
                                  int micro_batches, SearchWatch& watch) {
  if (options.times) return options.times(samples, device);
  return counted_nodes(graph, samples, nominal_speed(*device, options.precision), options.precision, optimizer_of(options),
                       device->backend(), &watch, micro_batches);
}

const Optimizer& optimizer_of(const PlanOptions& options) {
  static const AdamW usual({});
  return options.optimizer ? *options.optimizer : usual;
}

ModelCosts model_costs(const layers::Graph& graph, const PlanOptions& options, const std::vector<DevicePtr>& devices, int micro_batches,
                       SearchWatch& watch) {
  const int64_t samples = (options.batch + micro_batches - 1) / micro_batches;
  ModelCosts costs{{}, device_kinds(devices)};
  for (const auto& device : one_of_each_kind(devices)) {
    costs.kinds.push_back(model_bytes(graph, samples, options.precision, device->backend(), optimizer_of(options), &watch));
    set_times(costs.kinds.back(), node_times(graph, options, device, samples, micro_batches, watch));
  }
  return costs;
}

}  // namespace sluice::parallel
