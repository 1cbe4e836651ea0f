#include "parallel/run/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// Posting takes no time, and the end of a send seldom does.
bool is_worth_a_box(const TraceEvent& event) {
  constexpr double kShortest = 20e-6;
  const ActionKind kind = event.action.kind;
  return (kind != ActionKind::recv_post && kind != ActionKind::send_wait) || event.end - event.start >= kShortest;
}

using nlohmann::json;

/// The events of one process of a Chrome trace.
void append_process(json& events, int process, const char* name, const Trace& trace, const Topology& topology) {
  constexpr double kMicroseconds = 1e6;
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}});
  for (size_t device = 0; device < trace.device_names.size(); ++device)
    events.push_back(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", process}, {"tid", device}, {"args", {{"name", trace.device_names[device]}}}});
  std::map<std::pair<Transfer, int>, size_t> flows;
  for (const auto& event : trace.events) {
    if (!is_worth_a_box(event)) continue;
    const Action& action = event.action;
    events.push_back({{"name", describe(action, topology)},
                      {"cat", action.is_transfer() ? "transfer" : "compute"},
                      {"ph", "X"},
                      {"pid", process},
                      {"tid", event.device},
                      {"ts", event.start * kMicroseconds},
                      {"dur", (event.end - event.start) * kMicroseconds},
                      {"args", {{"stage", action.stage}, {"micro_batch", action.micro_batch}}}});
    events.push_back({{"name", "live bytes of " + trace.device_names.at(static_cast<size_t>(event.device))},
                      {"ph", "C"},
                      {"pid", process},
                      {"ts", event.end * kMicroseconds},
                      {"args", {{"bytes", event.live_bytes}}}});
    if (action.kind != ActionKind::send && action.kind != ActionKind::recv) continue;
    const size_t id = flows.try_emplace({action.transfer, action.micro_batch}, flows.size()).first->second;
    json flow = {{"name", "transfer"}, {"cat", "transfer"}, {"id", join(process, '.', id)}, {"pid", process}, {"tid", event.device}};
    flow["ph"] = action.kind == ActionKind::send ? "s" : "f";
    flow["ts"] = (action.kind == ActionKind::send ? event.start : event.end) * kMicroseconds;
    if (action.kind == ActionKind::recv) flow["bp"] = "e";
    events.push_back(flow);
  }
}

}  // namespace

double Trace::bubble() const {
  if (seconds <= 0 || device_names.empty()) return 0;
  double busy = 0;
  for (const auto& event : events)
    if (!event.action.is_transfer()) busy += event.end - event.start;
  return std::max(0.0, 1 - busy / (seconds * static_cast<double>(device_names.size())));  // rounding may pass 1
}

std::string chrome_trace(const Trace& trace, const Topology& topology, const Trace& predicted) {
  json events = json::array();
  if (!predicted.events.empty()) append_process(events, 0, "predicted", predicted, topology);
  append_process(events, 1, "measured", trace, topology);
  return json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false,
                                                                       json::error_handler_t::replace);  // of names that are no UTF-8
}

}  // namespace sluice::parallel
