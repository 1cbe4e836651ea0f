#include "parallel/plan/advice.h"

#include <algorithm>

#include "parallel/plan/choose.h"

namespace sluice::parallel {

namespace {

/// Nodes times micro-batches of all plans that are tried: some tens of seconds at most.
constexpr int64_t kMostWork = 300'000;

/// Devices that count for those of the plan, `count` of them: the last one's like again and again.
std::vector<DevicePtr> counting_devices(const std::vector<DevicePtr>& devices, int count) {
  std::vector<DevicePtr> result;
  for (int i = 0; i < count; ++i) {
    const Device& like = *devices[std::min<size_t>(i, devices.size() - 1)];
    Device::Options options = like.options();
    options.stands_for = like.backend();
    options.allow_tf32 = false;
    result.push_back(std::make_shared<Device>(DeviceKind::meta, i, options));
  }
  return result;
}

class Advice {
 public:
  Advice(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options)
      : graph_(graph), devices_(devices), asked_(options), options_(options) {}

  std::string text() {
    rematerialization();
    partition();
    micro_batches();
    more_devices();
    smaller_batch();
    return text_;
  }

 private:
  int have() const { return static_cast<int>(devices_.size()); }

  bool fits(const PlanOptions& options, int devices) {
    const auto nodes = static_cast<int64_t>(graph_.nodes().size());
    const int* number = options.micro_batches.given();
    work_ += nodes * std::max(number ? *number : 0, 8);
    if (devices > nodes || work_ > kMostWork) return false;
    try {
      return holds(options, counting_devices(devices_, devices));
    } catch (const UsageError&) {
      return false;  // replicas, virtual stages, fold blocks or a schedule leave no plan for these devices or this batch
    }
  }

  bool holds(const PlanOptions& options, const std::vector<DevicePtr>& counting) const {
    const Plan chosen = plan(graph_, counting, options);
    const auto peaks = counted_peak_bytes(graph_, chosen, optimizer_of(options), options.batch);
    for (size_t device = 0; device < counting.size(); ++device)
      if (peaks[device] > counting[device]->budget_bytes()) return false;
    return true;
  }

  /// All that is other than what was asked for.
  std::string changes(const PlanOptions& options, int devices) const {
    std::vector<std::string> list;
    if (devices != have()) list.push_back(join(devices, " devices"));
    if (options.batch != asked_.batch) list.push_back(join("PlanOptions::batch=", options.batch));
    if (const int* now = options.micro_batches.given(), *then = asked_.micro_batches.given(); then && (!now || *now != *then))
      list.push_back("PlanOptions::micro_batches=" + (now ? std::to_string(*now) : "kOpen"));
    if (asked_.partition.given() && !options.partition.given()) list.emplace_back("PlanOptions::partition=kOpen");
    if (options.remat.is_open() && !asked_.remat.is_open()) list.emplace_back("PlanOptions::remat=kOpen");
    std::string text;
    for (size_t i = 0; i < list.size(); ++i) text += join(i == 0 ? "" : i + 1 == list.size() ? " and " : ", ", list[i]);
    return text;
  }

  /// Whether it fits; then it is said.
  bool try_out(const PlanOptions& options, int devices) {
    if (!fits(options, devices)) return false;
    text_ += join(text_.empty() ? "it fits with " : ", or with ", changes(options, devices));
    return true;
  }

  void rematerialization() {
    if (options_.remat.is_open()) return;
    options_.remat = kOpen;
    try_out(options_, have());
  }

  /// Alone, and from here on with all that follows.
  void partition() {
    if (!options_.partition.given()) return;
    options_.partition = kOpen;
    PlanOptions alone = options_;
    alone.remat = asked_.remat;
    if (!try_out(alone, have()) && text_.empty() && !asked_.remat.is_open()) try_out(options_, have());
  }

  void micro_batches() {
    const int* given = options_.micro_batches.given();
    if (!text_.empty() || options_.schedule.fixed() || !given) return;
    PlanOptions more = options_;
    for (int64_t number = 2 * int64_t{*given}; number <= more.batch; number *= 2) {
      more.micro_batches = static_cast<int>(number);
      if (try_out(more, have())) return;
    }
  }

  void more_devices() {
    if (options_.schedule.fixed()) return;
    PlanOptions open = options_;
    open.micro_batches = kOpen;
    for (int count = have() + 1; count <= 16 * have(); count = count < have() + 3 ? count + 1 : count * 2)
      if (try_out(options_, count) || try_out(open, count)) return;
  }

  void smaller_batch() {
    PlanOptions smaller = options_;
    while (smaller.batch > 1) {
      smaller.batch /= 2;
      const Schedule* fixed = smaller.schedule.fixed();
      if (fixed && fixed->micro_batches > smaller.batch) return;
      if (const int* number = smaller.micro_batches.given())
        smaller.micro_batches = static_cast<int>(std::min<int64_t>(*number, smaller.batch));
      if (try_out(smaller, have())) return;
    }
  }

  const layers::Graph& graph_;
  const std::vector<DevicePtr>& devices_;
  const PlanOptions& asked_;
  PlanOptions options_;
  std::string text_;
  int64_t work_ = 0;
};

}  // namespace

std::string nearest_that_fits(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options) {
  return Advice(graph, devices, options).text();
}

}  // namespace sluice::parallel
