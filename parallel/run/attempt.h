#pragma once
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/device_speeds.h"
#include "parallel/program/clock.h"
#include "parallel/program/link_sharing.h"
#include "parallel/run/device_links.h"
#include "parallel/run/device_run.h"

namespace sluice::parallel {

/// One run. The devices' threads keep it alive, so that one which never comes back has it for ever.
struct Executor::Attempt {
  using SteadyClock = std::chrono::steady_clock;
  using Types = std::vector<std::shared_ptr<const ValueTypes::List>>;  // by micro-batch

  Attempt(const Executor& executor, const RunContext& run, const StepContext& what, Types types)
      : batch(*run.batch),
        context(run),
        step(what),
        before_action(executor.before_action_),
        value_types(std::move(types)),
        clock(clock_of(executor.devices_)),
        transport(executor.make_transport(clock ? &*clock : nullptr)) {
    for (const auto& device : executor.devices_) flops_before += device->counted().flops;
    context.batch = &batch;
  }

  static std::optional<Clock> clock_of(const std::vector<DevicePtr>& devices) {
    if (devices[0]->kind() != DeviceKind::meta) return std::nullopt;
    return Clock(static_cast<int>(devices.size()),
                 links_of(devices, nominal_speeds_of(devices, Precision::f32)));  // as declared: devices that count have one precision
  }

  /// Only the first failure counts; it stops all devices.
  void fail(std::exception_ptr error, const std::string& reason) {
    {
      std::lock_guard lock(mutex);
      if (failure) return;
      failure = std::move(error);
      failed_at = SteadyClock::now();
    }
    failed.request_stop();
    transport->close("stopped because another device failed: " + reason);
  }
  /// Null while nothing has failed.
  std::exception_ptr first_failure() {
    std::lock_guard lock(mutex);
    return failure;
  }
  std::optional<SteadyClock::time_point> when_failed() {
    std::lock_guard lock(mutex);
    return failure ? std::optional(failed_at) : std::nullopt;
  }

  const Batch batch;
  RunContext context;
  const StepContext step;
  const BeforeAction before_action;
  const Types value_types;
  std::optional<Clock> clock;          ///< of devices that only count
  std::optional<LinkSharing> sharing;  ///< the same
  const std::unique_ptr<Transport> transport;
  double flops_before = 0;  ///< of the devices' counters
  const SteadyClock::time_point began = SteadyClock::now();
  std::stop_source failed;
  Runs runs;

  std::mutex mutex;  ///< guards the next two
  std::exception_ptr failure;
  SteadyClock::time_point failed_at;
};

}  // namespace sluice::parallel
