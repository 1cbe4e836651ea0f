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
      : graph_(graph), devices_(devices), options_(options) {
    options_.memory = kUnlimited;  // the devices have it already
    if (options_.partition.given()) options_.partition = kOpen;
  }

  std::string text() {
    rematerialization();
    micro_batches();
    more_devices();
    smaller_batch();
    return text_;
  }

 private:
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

  bool fits(const PlanOptions& options) { return fits(options, static_cast<int>(devices_.size())); }

  template <class... Parts>
  void add(const Parts&... parts) {
    text_ += join(text_.empty() ? "it fits with " : ", or with ", parts...);
  }

  void rematerialization() {
    if (options_.remat.is_open()) return;
    options_.remat = kOpen;
    if (fits(options_)) add("PlanOptions::remat=kOpen");
  }

  void micro_batches() {
    const int* given = options_.micro_batches.given();
    if (!text_.empty() || options_.schedule.fixed() || !given) return;
    PlanOptions more = options_;
    for (int64_t number = 2 * int64_t{*given}; number <= more.batch; number *= 2) {
      more.micro_batches = static_cast<int>(number);
      if (!fits(more)) continue;
      add("PlanOptions::remat=kOpen and PlanOptions::micro_batches=", number);
      return;
    }
  }

  void more_devices() {
    if (options_.schedule.fixed()) return;
    const int have = static_cast<int>(devices_.size());
    PlanOptions open = options_;
    open.micro_batches = kOpen;
    for (int count = have + 1; count <= 16 * have; count = count < have + 3 ? count + 1 : count * 2) {
      const bool as_cut = fits(options_, count);
      if (!as_cut && !fits(open, count)) continue;
      add(count, " devices", as_cut ? "" : ", PlanOptions::micro_batches=kOpen", " and PlanOptions::remat=kOpen");
      return;
    }
  }

  void smaller_batch() {
    PlanOptions smaller = options_;
    while (smaller.batch > 1) {
      smaller.batch /= 2;
      const Schedule* fixed = smaller.schedule.fixed();
      if (fixed && fixed->micro_batches > smaller.batch) return;
      if (const int* number = smaller.micro_batches.given())
        smaller.micro_batches = static_cast<int>(std::min<int64_t>(*number, smaller.batch));
      if (!fits(smaller)) continue;
      add("PlanOptions::batch=", smaller.batch, " and PlanOptions::remat=kOpen");
      return;
    }
  }

  const layers::Graph& graph_;
  const std::vector<DevicePtr>& devices_;
  PlanOptions options_;
  std::string text_;
  int64_t work_ = 0;
};

}  // namespace

std::string nearest_that_fits(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options) {
  return Advice(graph, devices, options).text();
}

}  // namespace sluice::parallel
