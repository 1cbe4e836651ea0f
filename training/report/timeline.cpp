#include "training/report/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "training/report/time_rows.h"

namespace sluice::training {

namespace {

using parallel::Action;
using parallel::ActionKind;
using parallel::Trace;
using parallel::TraceEvent;

constexpr double kTextSize = TimeRows::kTextSize;
constexpr const char *kBubble = "#ececec", *kTransfer = "#0072b2";
constexpr size_t kMostTransfers = 300, kMostTooltips = 4000;

/// Okabe and Ito's colours, which all eyes tell apart: https://jfly.uni-koeln.de/color/
struct Look {
  const char* letter;
  const char* words;
  unsigned color;
};

Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {"F", "forward", 0x56b4e9};
    case ActionKind::backward:
      return {"B", "backward", 0xe69f00};
    case ActionKind::input_gradient:
      return {"I", "input gradients", 0xf0e442};
    case ActionKind::weight_gradient:
      return {"W", "weight gradients", 0x3fb68e};
    case ActionKind::recompute:
      return {"R", "recompute", 0xcc79a7};
    case ActionKind::recv_post:
    case ActionKind::send:
    case ActionKind::recv:
    case ActionKind::send_wait:
      return {"", "", 0};
    default:
      return {"S", "end of the step", 0x777777};
  }
}

/// A device's work in the order of time, without transfers.
std::vector<const TraceEvent*> work_of(const Trace& trace, size_t device) {
  std::vector<const TraceEvent*> work;
  for (const auto& event : trace.events)
    if (event.device == static_cast<int>(device) && !letter_of(event.action.kind).empty()) work.push_back(&event);
  std::ranges::stable_sort(work, {}, &TraceEvent::start);
  return work;
}

/// By stage: how many stages of its device come before it.
std::map<int, int> chunks_of(const Trace& trace) {
  std::map<int, std::set<int>> stages;
  for (const auto& event : trace.events)
    if (event.action.stage >= 0 && !letter_of(event.action.kind).empty()) stages[event.device].insert(event.action.stage);
  std::map<int, int> chunks;
  for (const auto& [device, of_device] : stages)
    for (int chunk = 0; const int stage : of_device) chunks[stage] = chunk++;
  return chunks;
}

/// Draws the boxes of one device.
class Row {
 public:
  Row(Svg& svg, const TimeRows& rows, const std::map<int, int>& chunks, std::vector<const TraceEvent*> work, size_t device,
      double end_seconds, bool with_tooltips)
      : svg_(svg),
        rows_(rows),
        chunks_(chunks),
        work_(std::move(work)),
        y_(rows.top(device)),
        end_(rows.x(end_seconds)),
        with_tooltips_(with_tooltips) {}

  void draw() const {
    svg_.box(rows_.left, y_, end_ - rows_.left, rows_.box_height(), kBubble);
    for (const auto* event : work_) draw_box(*event);
    if (rows_.height < kTextSize) return;
    for (size_t begin = 0, end; begin < work_.size(); begin = end) {
      end = begin + 1;
      while (end < work_.size() && continues(*work_[end - 1], *work_[end])) ++end;
      draw_numbers(begin, end);
    }
  }

 private:
  int chunk_of(const TraceEvent& event) const { return event.action.stage < 0 ? 0 : chunks_.at(event.action.stage); }
  double width_of(const TraceEvent& event) const { return rows_.x(event.end) - rows_.x(event.start); }

  void draw_box(const TraceEvent& event) const {
    constexpr double kShade = 0.3, kPalest = 0.75, kGap = 0.6;
    const Look look = look_of(event.action.kind);
    const double width = width_of(event), gap = width > 4 ? kGap : 0;
    const double share = std::min(kPalest, 1 - std::pow(1 - kShade, chunk_of(event)));
    svg_.box(rows_.x(event.start), y_, std::max(0.3, width - gap), rows_.box_height(), lighter(look.color, share),
             with_tooltips_ ? tooltip_of(event) : "");
  }

  static std::string tooltip_of(const TraceEvent& event) {
    const std::string number = event.action.micro_batch < 0 ? "" : fmt::format(" of micro-batch {}", event.action.micro_batch);
    const std::string stage = event.action.stage < 0 ? "" : fmt::format(", stage {}", event.action.stage);
    return fmt::format("{}{}{}: {} from {}", look_of(event.action.kind).words, number, stage, time_text(event.end - event.start),
                       time_text(event.start));
  }

  /// Two boxes of one kind without a gap: a number may reach from one into the other.
  bool continues(const TraceEvent& one, const TraceEvent& next) const {
    return one.action.kind == next.action.kind && one.action.stage == next.action.stage && rows_.x(next.start) - rows_.x(one.end) < 1;
  }

  /// Of boxes that follow each other: each number where boxes are wide enough, else every n-th.
  void draw_numbers(size_t begin, size_t end) const {
    double widest_text = 0, width = 1e9;
    for (size_t i = begin; i < end; ++i) {
      widest_text = std::max(widest_text, Svg::text_width(number_of(*work_[i]), kTextSize));
      width = std::min(width, std::max(0.1, width_of(*work_[i])));
    }
    if (widest_text == 0) return;
    int step = 1;
    for (const int candidate : {1, 2, 4, 8, 16, 32, 64}) {
      step = candidate;
      if (candidate * width >= widest_text + (candidate > 1 ? 8 : 3)) break;
    }
    if (step > 1 && end - begin < 2 * static_cast<size_t>(step)) return;
    for (size_t i = begin; i < end; ++i) {
      const std::string number = number_of(*work_[i]);
      const double middle = (rows_.x(work_[i]->start) + rows_.x(work_[i]->end)) / 2, half = Svg::text_width(number, kTextSize) / 2;
      const bool inside = middle - half >= rows_.x(work_[begin]->start) - 0.5 && middle + half <= rows_.x(work_[end - 1]->end) + 0.5;
      if (work_[i]->action.micro_batch % step == 0 && inside)
        svg_.text(middle, y_ + rows_.box_height() / 2 + 3.5, number, "middle", kTextSize);
    }
  }

  static std::string number_of(const TraceEvent& event) {
    return event.action.micro_batch < 0 ? "" : std::to_string(event.action.micro_batch);
  }

  Svg& svg_;
  const TimeRows& rows_;
  const std::map<int, int>& chunks_;
  std::vector<const TraceEvent*> work_;
  double y_, end_;
  bool with_tooltips_;
};

/// Draws a line for every transfer between devices; returns how many there are, and draws none when they are too many.
size_t draw_transfers(Svg& svg, const Trace& trace, const TimeRows& rows) {
  std::map<std::pair<parallel::Transfer, int>, std::pair<const TraceEvent*, const TraceEvent*>> ends;
  for (const auto& event : trace.events) {
    const std::pair key{event.action.transfer, event.action.micro_batch};
    if (event.action.kind == ActionKind::send) ends[key].first = &event;
    if (event.action.kind == ActionKind::recv) ends[key].second = &event;
  }
  std::erase_if(ends, [](const auto& entry) {
    const auto [sent, received] = entry.second;
    return !sent || !received || sent->device == received->device;
  });
  if (ends.size() > kMostTransfers) return ends.size();
  const double half = rows.box_height() / 2;
  for (const auto& [key, pair] : ends) {
    const auto [sent, received] = pair;
    const double down = sent->device < received->device ? half : -half;
    svg.thin_line(rows.x(sent->start), rows.top(sent->device) + half + down, rows.x(received->end),
                  rows.top(received->device) + half - down, kTransfer);
  }
  return ends.size();
}

void draw_legend(Svg& svg, const Trace& trace, double x, double y, size_t transfers) {
  const auto entry = [&](const std::string& color, const std::string& words) {
    svg.box(x, y, 11, 11, color);
    svg.text(x + 16, y + 9.5, words, "start", 11);
    x += 34 + Svg::text_width(words, 11);
  };
  std::map<std::string, Look> there;
  for (const auto& event : trace.events)
    if (const Look look = look_of(event.action.kind); *look.letter != '\0') there.insert({look.letter, look});
  for (const char* letter : {"F", "B", "I", "W", "R", "S"})
    if (const auto found = there.find(letter); found != there.end())
      entry(lighter(found->second.color, 0), *letter == 'S' ? found->second.words : fmt::format("{} {}", letter, found->second.words));
  entry(kBubble, "bubble");
  int chunks = 1;
  for (const auto& [stage, chunk] : chunks_of(trace)) chunks = std::max(chunks, chunk + 1);
  if (chunks > 1)
    entry(lighter(look_of(ActionKind::forward).color, 0.5), fmt::format("lighter: later of the {} stages of a device", chunks));
  if (transfers == 0) return;
  if (transfers <= kMostTransfers) svg.line(x, y + 5.5, x + 11, y + 5.5, kTransfer);
  svg.text(x + 16, y + 9.5, transfers <= kMostTransfers ? "transfer" : fmt::format("{} transfers are not drawn", transfers), "start", 11);
}

}  // namespace

std::string letter_of(ActionKind kind) { return look_of(kind).letter; }

Svg timeline_plot(const Trace& trace, const TimelineOptions& options) {
  const TimeRows rows(trace, 34, 6, options.seconds);
  Svg svg = plot_of_rows(rows, options.title, fmt::format("step {}, bubble {:.1f} %", time_text(trace.seconds), trace.bubble() * 100));
  const auto chunks = chunks_of(trace);
  for (size_t device = 0; device < trace.device_names.size(); ++device)
    Row(svg, rows, chunks, work_of(trace, device), device, trace.seconds, trace.events.size() <= kMostTooltips).draw();
  const size_t transfers = draw_transfers(svg, trace, rows);
  draw_labels(svg, trace, rows);
  draw_legend(svg, trace, rows.left, rows.bottom + TimeRows::kAxisHeight + 4, transfers);
  return svg;
}

}  // namespace sluice::training
