#include "cli/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/build.h"
#include "cli/config_words.h"
#include "cli/report/json_report.h"
#include "core/byte_units.h"
#include "core/device_speeds.h"
#include "parallel/plan/compare.h"

namespace sluice::cli {

namespace {

/// Of GPUs in one host, and of hosts, from fast to slow.
constexpr std::array kLinks{"nvlink", "pcie-5", "infiniband-ndr", "ethernet-10g"};

/// The layouts over one link.
struct Comparison {
  std::string link;
  std::vector<parallel::ComparedLayout> layouts;
};

std::vector<std::string> compared_links(const Settings& settings, const std::vector<DevicePtr>& devices) {
  if (const std::string& link = settings.text("pipeline.link"); !link.empty()) return {link};
  if (devices[0]->kind() != DeviceKind::meta) return {""};
  return {kLinks.begin(), kLinks.end()};
}

Comparison compared(const layers::Graph& graph, Settings settings, const Optimizer& optimizer, const std::string& link) {
  if (link != settings.text("pipeline.link")) settings.set("pipeline.link=" + link);  // the name of a file may look like a list
  const auto devices = build_devices(settings);
  const parallel::DeviceSpeeds speeds(speeds_of(devices, precision_of(settings)));
  return {link, parallel::compare_layouts(graph, devices, plan_options_on(devices, graph, settings, optimizer), speeds)};
}

std::string refusal_of(const parallel::ComparedLayout& layout) {
  return in_config_words(layout.refusal.empty() ? layout.prediction.reason : layout.refusal);
}

void print(const Comparison& comparison) {
  if (!comparison.link.empty()) fmt::print("{}\n", comparison.link);
  fmt::print("{:<9} {:>8} {:>8} {:>13} {:>12} {:>8} {:>12} {:>12} {:>12}\n", "layout", "replicas", "devices", "micro-batches", "step",
             "bubble", "sent", "by a device", "peak");
  for (const auto& layout : comparison.layouts) {
    if (const std::string refusal = refusal_of(layout); !refusal.empty()) {
      fmt::print("{:<9} {}\n", layout.name, refusal);
      continue;
    }
    fmt::print("{:<9} {:>8} {:>8} {:>13} {:>12} {:>8} {:>12} {:>12} {:>12}\n", layout.name, layout.plan.replication.replicas,
               parallel::devices_of_replica(layout.plan), layout.plan.micro_batches,
               fmt::format("{:.4g} s", layout.prediction.step_seconds), fmt::format("{:.1f} %", layout.prediction.bubble * 100),
               bytes_text(layout.sent_bytes()), bytes_text(layout.most_sent_bytes()), bytes_text(layout.peak_bytes()));
  }
}

Json json_of(const layers::Graph& graph, const Comparison& comparison) {
  Json layouts = Json::array();
  for (const auto& layout : comparison.layouts) {
    Json json{{"name", layout.name}, {"refusal", in_config_words(layout.refusal)}};
    if (layout.refusal.empty()) {
      json["sent_bytes"] = layout.sent_bytes();
      json["plan"] = plan_json(graph, layout.plan, layout.prediction);
    }
    layouts.push_back(std::move(json));
  }
  return {{"link", comparison.link.empty() ? Json(nullptr) : Json(comparison.link)}, {"layouts", layouts}};
}

}  // namespace

int compare(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer, const std::string& json) {
  Json all = Json::array();
  bool fits = false;
  for (const std::string& link : compared_links(settings, build_devices(settings))) {
    const Comparison comparison = compared(graph, settings, optimizer, link);
    if (json != "-") print(comparison);
    all.push_back(json_of(graph, comparison));
    for (const auto& layout : comparison.layouts) fits = fits || refusal_of(layout).empty();
  }
  write_json({{"comparisons", all}}, json);
  return fits ? 0 : 4;
}

}  // namespace sluice::cli
