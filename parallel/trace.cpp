#include "parallel/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace sluice::parallel {

namespace {

bool is_transfer(const Action& action) { return action.kind == ActionKind::send || action.kind == ActionKind::recv; }

}  // namespace

double Trace::bubble() const {
  if (seconds <= 0 || device_names.empty()) return 0;
  double busy = 0;
  for (const auto& event : events)
    if (!is_transfer(event.action)) busy += event.end - event.start;
  return std::max(0.0, 1 - busy / (seconds * static_cast<double>(device_names.size())));  // rounding may pass 1
}

std::string chrome_trace(const Trace& trace, const Topology& topology) {
  using nlohmann::json;
  constexpr double kMicroseconds = 1e6;
  json events = json::array();
  for (size_t device = 0; device < trace.device_names.size(); ++device)
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 0}, {"tid", device}, {"args", {{"name", trace.device_names[device]}}}});

  std::map<std::pair<Transfer, int>, size_t> flows;
  for (const auto& event : trace.events) {
    const Action& action = event.action;
    events.push_back({{"name", describe(action, topology)},
                      {"cat", is_transfer(action) ? "transfer" : "compute"},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", event.device},
                      {"ts", event.start * kMicroseconds},
                      {"dur", (event.end - event.start) * kMicroseconds},
                      {"args", {{"stage", action.stage}, {"micro_batch", action.micro_batch}}}});
    if (!is_transfer(action)) continue;
    const size_t id = flows.try_emplace({action.transfer, action.micro_batch}, flows.size()).first->second;
    json flow = {{"name", "transfer"}, {"cat", "transfer"}, {"id", id}, {"pid", 0}, {"tid", event.device}};
    flow["ph"] = action.kind == ActionKind::send ? "s" : "f";
    flow["ts"] = (action.kind == ActionKind::send ? event.start : event.end) * kMicroseconds;
    if (action.kind == ActionKind::recv) flow["bp"] = "e";
    events.push_back(flow);
  }
  return json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace sluice::parallel
