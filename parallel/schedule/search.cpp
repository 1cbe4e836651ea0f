#include "parallel/schedule/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "parallel/schedule/list.h"
#include "parallel/schedule/named.h"

namespace sluice::parallel {

namespace {

constexpr int kMostRefinedDevices = 64;

/// Keeps the best of all candidates.
class Search {
 public:
  Search(const StageCosts& costs, const std::vector<int>& device_of_stage, int micro_batches, const std::vector<double>& byte_cap,
         const std::function<void()>& watch)
      : costs_(costs), device_of_stage_(device_of_stage), micro_batches_(micro_batches), byte_cap_(byte_cap), watch_(watch) {
    devices_ = *std::max_element(device_of_stage.begin(), device_of_stage.end()) + 1;
    for (int device = 0; device < devices_; ++device)
      stages_on_.push_back(std::count(device_of_stage.begin(), device_of_stage.end(), device));
    guides_.push_back(costs);
    if (is_chain(costs)) return;
    guides_.push_back(costs);
    guides_.back().activations.clear();
    guides_.back().gradients.clear();
  }

  FoundSchedule run() {
    try_named();
    for (const bool split : {true, false})
      if (split ? costs_.can_split() : !costs_.backward.empty()) try_rules(split);
    refine();
    try_merged();
    best_.schedule.name = "auto";
    return std::move(best_);
  }

 private:
  struct Ranked {
    FoundSchedule found;
    ListRule rule;
  };

  /// Each stage exchanges activations and gradients with its neighbours alone.
  static bool is_chain(const StageCosts& costs) {
    const auto comes_back = [&](const StageTransfer& there) {
      return std::ranges::any_of(costs.gradients, [&](const auto& back) { return back.from == there.to && back.to == there.from; });
    };
    return std::ranges::all_of(costs.activations, [&](const auto& there) { return there.to == there.from + 1 && comes_back(there); }) &&
           std::ranges::all_of(costs.gradients, [](const auto& back) { return back.from == back.to + 1; });
  }

  void try_named() {
    for (const NamedSchedule schedule : kNamedSchedules) {
      const int stages = static_cast<int>(device_of_stage_.size());
      const bool splits = schedule == NamedSchedule::zb_h1 || schedule == NamedSchedule::zb_v;
      if (stages % devices_ != 0 || (splits ? !costs_.can_split() : costs_.backward.empty())) continue;
      const int each = schedule == NamedSchedule::interleaved ? stages / devices_ : 1;
      if (stage_placement(schedule, devices_, each) != device_of_stage_) continue;
      consider(make_schedule(schedule, devices_, micro_batches_, each), std::string(name_of(schedule)));
    }
  }

  void try_rules(bool split) {
    const bool has_deeper_stages = static_cast<int>(device_of_stage_.size()) > devices_;
    const ListRule plain{std::vector<bool>(device_of_stage_.size(), split), {}, byte_cap_, false, false, 0.5};
    for (const auto& under_way : limits(split))
      for (const auto& cap : caps())
        for (const bool forward_first : {false, true})
          for (const bool shallow_first : {false, true}) {
            if (shallow_first && !has_deeper_stages) continue;
            ListRule rule = plain;
            rule.under_way = under_way;
            rule.byte_cap = cap;
            rule.forward_first = forward_first;
            rule.shallow_first = shallow_first;
            consider(rule);
          }
  }

  /// Limits on the micro-batches under way: as many as fill the way to the last stage and back (Little's law) and multiples of that, as
  /// many as there are stages behind, one, and all.
  std::vector<std::vector<double>> limits(bool split) const {
    std::vector<double> little(devices_, 0), behind(devices_, 0);
    const auto way = ways(split);
    const double period = slowest_device(split);
    const int stages = static_cast<int>(device_of_stage_.size());
    for (int s = stages - 1; s >= 0; --s) {
      const int device = device_of_stage_[s];
      little[device] += period > 0 ? way[s] / period / stages_on_[device] : 0;
      behind[device] = static_cast<double>(stages - s) / stages_on_[device];
    }
    std::vector<std::vector<double>> all{behind, std::vector<double>(devices_, 1), std::vector<double>(devices_, micro_batches_)};
    for (const double factor : {1.0, 1.25, 1.5, 2.0, 3.0}) {
      all.push_back(little);
      for (int device = 0; device < devices_; ++device)
        all.back()[device] = std::ceil(little[device] * factor * stages_on_[device] - kRounding) / stages_on_[device];
    }
    return all;
  }

  double backward_seconds(int stage, bool split) const {
    return (split ? costs_.input_gradient[stage] : costs_.backward[stage]) + cost_at(costs_.recompute, stage);
  }

  /// By stage: from the start of its forward to the end of its backward when nothing else is to be done.
  std::vector<double> ways(bool split) const {
    const int stages = static_cast<int>(device_of_stage_.size());
    std::vector<double> way(stages, 0), behind(stages, 0);
    const auto there_and_back = seconds_between(transfers_of(costs_, stages));
    auto pair = there_and_back.rbegin();
    for (int s = stages - 1; s >= 0; --s) {
      way[s] = behind[s] + costs_.forward[s] + backward_seconds(s, split);
      for (; pair != there_and_back.rend() && pair->first.first == s; ++pair) {
        double& before = behind[pair->first.second];
        before = std::max(before, way[s] + pair->second);
      }
    }
    return way;
  }

  /// By later and earlier stage: what goes from one to the other and back.
  std::map<std::pair<int, int>, double> seconds_between(const StageTransfers& transfers) const {
    std::map<std::pair<int, int>, double> between;
    const auto add = [&](int later, int earlier, const StageTransfer& transfer) {
      const int from = device_of_stage_[transfer.from], to = device_of_stage_[transfer.to];
      double& seconds = between.try_emplace({later, earlier}, 0.0).first->second;
      if (from != to) seconds += costs_.links.between(from, to).seconds(transfer.bytes);
    };
    for (const StageTransfer& transfer : transfers.activations) add(transfer.to, transfer.from, transfer);
    for (const StageTransfer& transfer : transfers.gradients) add(transfer.from, transfer.to, transfer);
    return between;
  }

  double slowest_device(bool split) const {
    std::vector<double> seconds(devices_, 0);
    for (std::size_t s = 0; s < device_of_stage_.size(); ++s)
      seconds[device_of_stage_[s]] +=
          costs_.forward[s] + backward_seconds(static_cast<int>(s), split) + (split ? costs_.weight_gradient[s] : 0);
    return *std::max_element(seconds.begin(), seconds.end());
  }

  /// The given cap, and what as many micro-batches as devices keep, for schedules that are as fast with less.
  std::vector<std::vector<double>> caps() const {
    std::vector<std::vector<double>> all{byte_cap_};
    if (costs_.kept.empty()) return all;
    std::vector<double> lean(devices_, 0);
    for (std::size_t s = 0; s < device_of_stage_.size(); ++s) lean[device_of_stage_[s]] += devices_ * costs_.kept[s];
    for (int device = 0; device < devices_ && !byte_cap_.empty(); ++device) lean[device] = std::min(lean[device], byte_cap_[device]);
    all.push_back(std::move(lean));
    return all;
  }

  /// Other patience, and whole backwards for the first stages, which nobody waits for, around the best rules so far.
  void refine() {
    const std::vector<Ranked> best = std::exchange(ranked_, {});
    const std::size_t stages = device_of_stage_.size();
    for (const Ranked& start : best) {
      for (const double patience : {0.0, 0.25, 1.0}) {
        ListRule rule = start.rule;
        rule.patience = patience;
        consider(rule);
      }
      for (const std::size_t whole : {std::size_t{1}, stages / 4, stages / 2, stages - stages / 4}) {
        if (!start.rule.splits[0] || costs_.backward.empty()) continue;
        ListRule rule = start.rule;
        std::fill_n(rule.splits.begin(), whole, false);
        consider(rule);
      }
    }
  }

  /// An I with its W right behind it is a B, which may be faster but lets the gradient go later.
  void try_merged() {
    if (costs_.backward.empty() || !costs_.can_split()) return;
    Schedule all = best_.schedule;
    for (auto& order : all.devices) merge(order);
    consider(std::move(all), best_.source + ", merged");
    for (int device = 0; device < devices_ && devices_ <= kMostRefinedDevices; ++device) {
      Schedule one = best_.schedule;
      if (merge(one.devices[device])) consider(std::move(one), best_.source);
    }
  }

  static bool merge(std::vector<ComputeAction>& order) {
    std::vector<ComputeAction> merged;
    for (const ComputeAction& action : order) {
      const bool closes = !merged.empty() && action.kind == Compute::weight_gradient && merged.back().kind == Compute::input_gradient &&
                          merged.back().stage == action.stage && merged.back().micro_batch == action.micro_batch;
      if (closes)
        merged.back().kind = Compute::backward;
      else
        merged.push_back(action);
    }
    const bool changed = merged.size() < order.size();
    order = std::move(merged);
    return changed;
  }

  /// A greedy list may be better for a wait that is not needed, so lists as for a chain are judged beside those of the graph.
  void consider(const ListRule& rule) {
    for (const StageCosts& guide : guides_)
      consider(judged(list_schedule(guide, device_of_stage_, devices_, micro_batches_, rule), "list scheduling"), rule);
  }

  void consider(FoundSchedule found, ListRule rule) {
    constexpr std::size_t kRefined = 4;
    const auto place = std::find_if(ranked_.begin(), ranked_.end(), [&](const Ranked& other) { return is_better(found, other.found); });
    keep(found);
    found.schedule.devices.clear();
    ranked_.insert(place, {std::move(found), std::move(rule)});
    if (ranked_.size() > kRefined) ranked_.pop_back();
  }

  void consider(Schedule schedule, const std::string& source) { keep(judged(std::move(schedule), source)); }

  void keep(const FoundSchedule& found) {
    if (best_.schedule.devices.empty() || is_better(found, best_)) best_ = found;
  }

  FoundSchedule judged(Schedule schedule, const std::string& source) const {
    if (watch_) watch_();
    ScheduleTiming timing = time_schedule(schedule, costs_);
    const bool fits = excess(timing) <= kRounding;
    return {std::move(schedule), std::move(timing), source, fits};
  }

  /// How far the worst device is above its cap, as a share of the cap.
  double excess(const ScheduleTiming& timing) const {
    double most = 0;
    for (int device = 0; device < devices_ && !byte_cap_.empty(); ++device)
      if (timing.peak_bytes[device] > byte_cap_[device])
        most = std::max(most, (timing.peak_bytes[device] - byte_cap_[device]) / std::max(byte_cap_[device], 1.0));
    return most;
  }

  /// What fits, else what lacks less; then what is faster; then what holds less.
  bool is_better(const FoundSchedule& a, const FoundSchedule& b) const {
    if (a.fits != b.fits) return a.fits;
    const double lack_a = a.fits ? 0 : excess(a.timing), lack_b = b.fits ? 0 : excess(b.timing);
    if (std::abs(lack_a - lack_b) > kRounding * lack_b) return lack_a < lack_b;
    if (std::abs(a.timing.seconds - b.timing.seconds) > kRounding * b.timing.seconds) return a.timing.seconds < b.timing.seconds;
    const auto held = [](const FoundSchedule& f) { return std::accumulate(f.timing.peak_bytes.begin(), f.timing.peak_bytes.end(), 0.0); };
    return held(a) < held(b) * (1 - kRounding);
  }

  const StageCosts& costs_;
  const std::vector<int>& device_of_stage_;
  const int micro_batches_;
  const std::vector<double>& byte_cap_;
  const std::function<void()>& watch_;
  int devices_ = 0;
  std::vector<StageCosts> guides_;  // that lists are made with
  std::vector<int> stages_on_;      // by device
  std::vector<Ranked> ranked_;      // the best rules, best first, without their orders
  FoundSchedule best_;
};

}  // namespace

FoundSchedule search_schedule(const StageCosts& costs, const std::vector<int>& device_of_stage, int micro_batches,
                              const std::vector<double>& byte_cap, const std::function<void()>& watch) {
  forward_schedule(device_of_stage, 1);  // a placement over devices without gaps
  require(micro_batches >= 1, "schedule: needs at least one micro-batch, got ", micro_batches, "; set micro_batches to 1 or more");
  require_few_enough(micro_batches, static_cast<int>(device_of_stage.size()), "schedule");
  require_costs(costs, static_cast<int>(device_of_stage.size()), costs.can_split());
  require(costs.can_split() || costs.input_gradient.empty() == costs.weight_gradient.empty(),
          "schedule: needs input_gradient and weight_gradient together; give both or none");
  const int devices = *std::max_element(device_of_stage.begin(), device_of_stage.end()) + 1;
  require(byte_cap.empty() || static_cast<int>(byte_cap.size()) == devices, "schedule: needs a byte cap for each of ", devices,
          " devices or none, got ", byte_cap.size(), "; give all or none");
  return Search(costs, device_of_stage, micro_batches, byte_cap, watch).run();
}

}  // namespace sluice::parallel
