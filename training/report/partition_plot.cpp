#include "training/report/partition_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace sluice::training {

namespace {

constexpr double kPageWidth = 1200, kPageLeft = 90, kPageRight = 110, kHeader = 30, kBar = 26, kGap = 30, kLabelSize = 10;
constexpr size_t kMostArcs = 400;
constexpr const char* kColors[] = {"#56b4e9", "#e6b84d", "#3fb68e", "#d89ac0", "#f0e442", "#8fa8d8", "#e8926a"};

const char* color_of(int stage) { return kColors[static_cast<size_t>(stage) % std::size(kColors)]; }

/// Left edges of parts that fill the bar in proportion to their sizes; one more than there are parts.
std::vector<double> edges_of(const std::vector<double>& sizes) {
  const double total = std::max(1e-300, std::accumulate(sizes.begin(), sizes.end(), 0.0));
  std::vector<double> edges{kPageLeft};
  for (const double size : sizes) edges.push_back(edges.back() + size / total * (kPageWidth - kPageLeft - kPageRight));
  return edges;
}

/// A bar of one length, cut into the nodes' parts.
struct Bar {
  std::string name, total;
  std::vector<double> sizes;  ///< by node
  bool has_shares;            ///< stages are named by their shares, else by their numbers

  /// What stands in the parts of the stages: shares where they fit, numbers when all of them do.
  std::vector<std::string> labels(const parallel::Partition& partition) const {
    const auto edges = edges_of(sizes);
    const double sum = std::max(1e-300, std::accumulate(sizes.begin(), sizes.end(), 0.0));
    std::vector<std::string> labels;
    bool all_fit = true;
    for (int stage = 0; stage < partition.stage_count(); ++stage) {
      const int first = partition.first_node(stage), end = partition.end_node(stage);
      const double share = std::accumulate(sizes.begin() + first, sizes.begin() + end, 0.0) / sum * 100;
      const auto fits = [&](const std::string& words) { return Svg::text_width(words, kLabelSize) <= edges[end] - edges[first] - 4; };
      const std::string whole = has_shares ? fmt::format("{:.1f} %", share) : "stage " + std::to_string(stage);
      const std::string brief = has_shares ? fmt::format("{:.0f} %", share) : std::to_string(stage);
      labels.push_back(fits(whole) ? whole : fits(brief) ? brief : "");
      all_fit = all_fit && !labels.back().empty();
    }
    if (!has_shares && !all_fit) std::ranges::fill(labels, "");
    return labels;
  }
};

void draw_bar(Svg& svg, const CutModel& model, double y, const Bar& bar) {
  const auto edges = edges_of(bar.sizes);
  const auto labels = bar.labels(model.partition);
  svg.text(kPageLeft - 8, y + kBar / 2 + 4, bar.name, "end", 11);
  svg.text(kPageWidth - kPageRight + 8, y + kBar / 2 + 4, bar.total, "start", 11);
  for (int stage = 0; stage < model.partition.stage_count(); ++stage) {
    const int first = model.partition.first_node(stage), end = model.partition.end_node(stage);
    for (int node = first; node < end; ++node) {
      const double width = edges[node + 1] - edges[node], gap = width > 4 ? 0.8 : 0;
      svg.box(edges[node], y, std::max(0.2, width - gap), kBar, color_of(stage),
              fmt::format("{}: stage {}, {} parameters, {:.4g} ms", model.topology.nodes[node].name, stage, model.parameters[node],
                          model.seconds[node] * 1e3));
    }
    if (!labels[stage].empty()) svg.text((edges[first] + edges[end]) / 2, y + kBar / 2 + 3.5, labels[stage], "middle", kLabelSize);
    if (stage > 0) svg.line(edges[first] - 0.4, y - 3, edges[first] - 0.4, y + kBar + 3, "#222222");
  }
}

struct Skip {
  int from, to;
};

/// From the node that makes a value to a consumer that is not the next node.
std::vector<Skip> skips_of(const parallel::Topology& topology) {
  std::vector<Skip> skips;
  for (int node = 0; node < topology.node_count(); ++node)
    for (const int value : topology.nodes[node].inputs)
      if (const int from = topology.node_of(value); from >= 0 && node - from > 1) skips.push_back({from, node});
  return skips;
}

void draw_skips(Svg& svg, const std::vector<Skip>& skips, const std::vector<double>& edges, double y, double tallest) {
  double longest = 1;
  for (const auto& skip : skips) longest = std::max(longest, edges[skip.to] - edges[skip.from]);
  const auto middle = [&](int node) { return (edges[node] + edges[node + 1]) / 2; };
  for (const auto& skip : skips)
    svg.arc(middle(skip.from), middle(skip.to), y, tallest * (0.25 + 0.75 * (edges[skip.to] - edges[skip.from]) / longest) / 0.75 * 0.95,
            "#444444");
}

std::string count_text(double count) {
  constexpr double kRounded = 0.9995;  // three digits of it and more are the next unit's 1
  return count >= kRounded * 1e9   ? fmt::format("{:.3g} G", count / 1e9)
         : count >= kRounded * 1e6 ? fmt::format("{:.3g} M", count / 1e6)
                                   : fmt::format("{:.0f}", count);
}

}  // namespace

Svg partition_plot(const CutModel& model) {
  const auto skips = skips_of(model.topology);
  const bool with_arcs = !skips.empty() && skips.size() <= kMostArcs;
  const double arcs = with_arcs ? 46 : 4, first = kHeader + arcs;
  Svg svg(kPageWidth, first + 3 * (kBar + kGap) - 8);
  svg.text(8, 19, "Partition", "start", 14);
  const std::vector<double> equal(model.topology.nodes.size(), 1);
  std::vector<double> parameters(model.parameters.begin(), model.parameters.end());
  const double total_parameters = std::accumulate(parameters.begin(), parameters.end(), 0.0);
  const double seconds = std::accumulate(model.seconds.begin(), model.seconds.end(), 0.0);
  if (with_arcs) draw_skips(svg, skips, edges_of(equal), first, arcs);
  const Bar bars[] = {{"nodes", fmt::format("{} nodes", equal.size()), equal, false},
                      {"time F+B", fmt::format("{:.4g} ms", seconds * 1e3), model.seconds, true},
                      {"parameters", count_text(total_parameters), parameters, true}};
  for (double y = first; const auto& bar : bars) {
    draw_bar(svg, model, y, bar);
    y += kBar + kGap;
  }
  if (!skips.empty() && !with_arcs)
    svg.text(kPageWidth - 16, 19, fmt::format("{} values that pass over nodes are not drawn", skips.size()), "end", 11);
  return svg;
}

}  // namespace sluice::training
