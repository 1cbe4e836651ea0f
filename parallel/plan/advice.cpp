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
    if (options_.partition == "list") options_.partition = "auto";
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
    work_ += nodes * std::max(options.micro_batches, 8);
    if (devices > nodes || work_ > kMostWork) return false;
    const auto counting = counting_devices(devices_, devices);
    static const AdamW usual({});
    const Plan chosen = plan(graph_, counting, options);
    const auto peaks = counted_peak_bytes(graph_, chosen, options.optimizer ? *options.optimizer : usual, options.batch);
    for (int device = 0; device < devices; ++device)
      if (peaks[device] > counting[device]->budget_bytes()) return false;
    return true;
  }

  bool fits(const PlanOptions& options) { return fits(options, static_cast<int>(devices_.size())); }

  template <class... Parts>
  void add(const Parts&... parts) {
    text_ += join(text_.empty() ? "it fits with " : ", or with ", parts...);
  }

  void rematerialization() {
    if (options_.remat == "auto") return;
    options_.remat = "auto";
    if (fits(options_)) add("PlanOptions::remat=auto");
  }

  void micro_batches() {
    if (!text_.empty() || options_.orders || options_.micro_batches == 0) return;
    PlanOptions open = options_;
    for (int64_t number = 2 * int64_t{open.micro_batches}; number <= open.batch; number *= 2) {
      open.micro_batches = static_cast<int>(number);
      if (!fits(open)) continue;
      add("PlanOptions::remat=auto and PlanOptions::micro_batches=", number);
      return;
    }
  }

  void more_devices() {
    if (options_.orders) return;
    const int have = static_cast<int>(devices_.size());
    PlanOptions open = options_;
    open.micro_batches = 0;
    for (int count = have + 1; count <= 16 * have; count = count < have + 3 ? count + 1 : count * 2) {
      const bool as_cut = fits(options_, count);
      if (!as_cut && !fits(open, count)) continue;
      add(count, " devices", as_cut ? "" : ", PlanOptions::micro_batches=0", " and PlanOptions::remat=auto");
      return;
    }
  }

  void smaller_batch() {
    PlanOptions smaller = options_;
    while (smaller.batch > 1) {
      smaller.batch /= 2;
      if (smaller.orders && smaller.orders->micro_batches > smaller.batch) return;
      smaller.micro_batches = static_cast<int>(std::min<int64_t>(smaller.micro_batches, smaller.batch));
      if (!fits(smaller)) continue;
      add("PlanOptions::batch=", smaller.batch, " and PlanOptions::remat=auto");
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
