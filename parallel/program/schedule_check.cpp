#include "parallel/program/schedule_check.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// What one stage has done of one micro-batch, or of all that come before the next one.
struct Done {
  bool forward = false, input_gradient = false, weights = false;
};

class Check {
 public:
  Check(const Schedule& schedule, std::string_view name) : schedule_(schedule), name_(name) {}

  void run() {
    require_placement();
    require_size();
    done_.resize(static_cast<std::size_t>(schedule_.stage_count()) * schedule_.micro_batches);
    next_.assign(schedule_.stage_count(), 0);
    for (int device = 0; device < schedule_.device_count(); ++device)
      for (const ComputeAction& action : schedule_.devices[device]) take(device, action);
    for (std::size_t place = 0; place < done_.size(); ++place)
      require(done_[place].weights, name_, ": needs a backward of every micro-batch on every stage, got none of micro-batch ",
              place % schedule_.micro_batches, " on stage ", place / schedule_.micro_batches, "; add it");
  }

 private:
  void require_placement() const {
    require(schedule_.stage_count() > 0 && schedule_.device_count() > 0, name_, ": needs at least one stage and one device, got ",
            schedule_.stage_count(), " and ", schedule_.device_count());
    std::vector<bool> used(schedule_.devices.size(), false);
    for (int stage = 0; stage < schedule_.stage_count(); ++stage) {
      const int device = schedule_.device_of_stage[stage];
      require(0 <= device && device < schedule_.device_count(), name_, ": needs each stage on one of the devices 0 to ",
              schedule_.device_count() - 1, ", got stage ", stage, " on ", device);
      used[device] = true;
    }
    const auto idle = std::find(used.begin(), used.end(), false);
    require(idle == used.end(), name_, ": needs a stage on every device, device ", idle - used.begin(), " has none; leave it out");
  }

  void require_size() const {
    require(schedule_.micro_batches >= 1, name_, ": needs at least one micro-batch, got ", schedule_.micro_batches);
    std::int64_t actions = 0;
    for (const auto& order : schedule_.devices) actions += static_cast<std::int64_t>(order.size());
    const std::int64_t least = 2 * std::int64_t{schedule_.micro_batches} * schedule_.stage_count();
    require(actions >= least, name_, ": needs F and B of ", schedule_.micro_batches, " micro-batches on ", schedule_.stage_count(),
            " stages, ", least, " actions or more, got ", actions, "; add what is missing");
  }

  void take(int device, const ComputeAction& action) {
    const auto& [kind, stage, micro_batch] = action;
    require(0 <= stage && stage < schedule_.stage_count() && schedule_.device_of_stage[stage] == device, name_, ": device ", device,
            " may only run its own stages, got stage ", stage, "; move the action to the stage's device");
    require(0 <= micro_batch && micro_batch < schedule_.micro_batches, name_, ": micro-batches run from 0 to ", schedule_.micro_batches - 1,
            ", got ", micro_batch, " on device ", device);
    Done& done = done_[static_cast<std::size_t>(stage) * schedule_.micro_batches + micro_batch];
    const bool fits = is_next(kind, done);
    require(fits, name_, ": needs F, then B, or I and W, of each micro-batch once, got ", name_of(kind), " of micro-batch ", micro_batch,
            " on stage ", stage, done.forward ? " too late or twice" : " before its F", "; correct the order");
    if (kind == Compute::forward) done.forward = true;
    if (kind == Compute::input_gradient) done.input_gradient = true;
    if (kind != Compute::backward && kind != Compute::weight_gradient) return;
    done.weights = true;
    require(micro_batch == next_[stage], name_, ": needs the backwards of a stage in ascending order, got micro-batch ", micro_batch,
            " before ", next_[stage], " on stage ", stage, "; gradients accumulate in that order");
    ++next_[stage];
  }

  static bool is_next(Compute kind, const Done& done) {
    switch (kind) {
      case Compute::forward:
        return !done.forward;
      case Compute::backward:
      case Compute::input_gradient:
        return done.forward && !done.input_gradient && !done.weights;
      case Compute::weight_gradient:
        return done.input_gradient && !done.weights;
    }
    return false;
  }

  static std::string_view name_of(Compute kind) {
    constexpr std::string_view kNames[] = {"F", "B", "I", "W"};
    const auto index = static_cast<std::size_t>(kind);
    return index < std::size(kNames) ? kNames[index] : "an unknown action";
  }

  const Schedule& schedule_;
  const std::string_view name_;
  std::vector<Done> done_;  // by stage and micro-batch
  std::vector<int> next_;   // by stage: the micro-batch whose weight gradient is due
};

}  // namespace

void require_complete(const Schedule& schedule, std::string_view name) { Check(schedule, name).run(); }

}  // namespace sluice::parallel
