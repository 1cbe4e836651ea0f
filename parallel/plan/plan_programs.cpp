#include "parallel/plan/plan_programs.h"

#include <algorithm>

#include "core/no_elements.h"
#include "parallel/program/program_codec.h"
#include "parallel/program/verify.h"
#include "parallel/run/agreement.h"
#include "parallel/schedule/named.h"

namespace sluice::parallel {

StageOptions stage_options(const Plan& plan, const Optimizer& optimizer) {
  require(!plan.replication.shards() || !optimizer.needs_whole_parameters(), "Plan::replication: ", optimizer.name(),
          " steps whole parameters, which replicas that share them out do not have; set shards_optimizer = false");
  return {.optimizer = &optimizer, .precision = plan.precision, .averages = optimizer.ema > 0};
}

Layout layout_of(const Topology& topology, const Plan& plan, const std::vector<int>& placement) {
  return {topology, plan.partition.segments(), placement, plan.rematerialize, static_cast<int>(plan.devices.size()),
          true,     plan.replication};
}

PlanPrograms::PlanPrograms(const layers::Graph& graph, const Topology& topology, const Plan& plan, const StageOptions& options,
                           std::vector<DeviceSpeed> speeds, Group* group)
    : graph_(graph), topology_(topology), plan_(plan), options_(options), speeds_(std::move(speeds)), group_(group) {}

CountingExecutor& PlanPrograms::counter() {
  if (!counter_) {
    const auto placement = device_of_stage(plan_);
    const Layout layout = layout_of(topology_, plan_, placement);
    const CountingExecutor::Devices devices{plan_.devices, speeds_, beside_};
    counter_ = std::make_unique<CountingExecutor>(graph_, layout, devices, options_);
  }
  return *counter_;
}

void PlanPrograms::hold_beside(std::vector<int64_t> bytes) {
  beside_ = std::move(bytes);
  counter_.reset();
  kept_.clear();
}

int PlanPrograms::micro_batches_of(const BatchShape& shape) const {
  return static_cast<int>(std::clamp<int64_t>(shape.samples, 1, plan_.micro_batches));
}

PlanPrograms::Use PlanPrograms::step(BatchShape shape, int micro_batches) const {
  require_few_enough(micro_batches, plan_.partition.stage_count(), "step");
  return {true, micro_batches > 0 ? micro_batches : micro_batches_of(shape), false, std::move(shape)};
}

PlanPrograms::Use PlanPrograms::evaluation(BatchShape shape, bool keeps_output) const {
  return {false, micro_batches_of(shape), keeps_output, std::move(shape)};
}

std::vector<int64_t> PlanPrograms::budgets() const {
  std::vector<int64_t> budgets;
  for (const auto& device : plan_.devices) budgets.push_back(device->budget_bytes());
  return budgets;
}

const Program& PlanPrograms::get(const Use& use) {
  constexpr size_t kMostKept = 64;  // mini-batches may be of any number of shapes
  std::vector<int64_t> budgets = this->budgets();
  const auto known = std::ranges::find(kept_, use, &Kept::use);
  if (known != kept_.end() && known->budgets == budgets) return known->program;
  Program program = group_ ? made_by_root(use) : within_budgets(use);
  if (known != kept_.end()) kept_.erase(known);
  if (kept_.size() == kMostKept) kept_.pop_back();
  kept_.push_front({use, std::move(budgets), std::move(program)});
  return kept_.front().program;
}

Program PlanPrograms::within_budgets(const Use& use) try {
  Program program = count(use).program;
  const std::string refusal = counter().refusal(program, use.shape, use.keeps_output, use.sequences);
  require<OutOfMemory>(refusal.empty(), use.training ? "a step" : "an evaluation", " of ", use.shape.samples, " samples in ",
                       use.micro_batches, " micro-batches does not fit: ", refusal);
  return program;
} catch (const NoElements&) {
  return lowered(schedule_for(use));
}

Program PlanPrograms::made_by_root(const Use& use) {
  return decode_program(on_root(group_, [&] { return encode(within_budgets(use)); }));
}

const SearchedSchedule* PlanPrograms::searched(const Use& use) const {
  const auto* searched = plan_.schedule.searched();
  const bool is_other = searched && searched->order().micro_batches != use.micro_batches;
  return is_other && use.training && plan_.replication.replicas == 1 ? searched : nullptr;
}

Schedule PlanPrograms::schedule_for(const Use& use) const {
  return use.training ? schedule_of(plan_, use.micro_batches) : evaluation_schedule_of(plan_, use.micro_batches);
}

Program PlanPrograms::lowered(const Schedule& schedule) const {
  Program program = lower(topology_, plan_.partition.segments(), schedule, plan_.rematerialize, plan_.window, plan_.replication);
  require_valid(topology_, program);
  return program;
}

PlanPrograms::Counted PlanPrograms::count(const Use& use) {
  const SearchedSchedule* searched = this->searched(use);
  return searched ? count_searched(*searched, use) : count(lowered(schedule_for(use)), use);
}

PlanPrograms::Counted PlanPrograms::count(Program program, const Use& use) {
  RunResult run = counter().count(program, use.shape, use.keeps_output, use.sequences);
  return {std::move(program), std::move(run)};
}

/// The search only estimates bytes: what the counted ones are off by goes into its caps, until its order keeps to the budgets.
PlanPrograms::Counted PlanPrograms::count_searched(const SearchedSchedule& searched, const Use& use) {
  constexpr int kMostSearches = 6;
  std::vector<double> caps;
  for (int search = 1;; ++search) {
    const FoundSchedule found = searched.search_again(use.micro_batches, caps);
    Counted counted = count(lowered(in_segments(found.schedule, plan_.partition.segments_of_stage())), use);
    if (!searched.costs().kept.empty()) caps = tighter_caps(found, counted.program);
    if (caps.empty() || search == kMostSearches) return counted;
  }
}

/// By device: as much of the estimated bytes as the budget leaves of the counted ones. Empty when the program keeps to all budgets.
std::vector<double> PlanPrograms::tighter_caps(const FoundSchedule& found, const Program& program) {
  const auto peaks = counter().peaks(program), budgets = this->budgets();
  if (std::ranges::equal(peaks, budgets, std::ranges::less_equal())) return {};
  std::vector<double> caps(peaks.size(), kInfinity);
  for (size_t device = 0; device < peaks.size(); ++device) {
    if (budgets[device] == kUnlimited) continue;
    const int64_t always = program.devices[device].back().live_bytes, left = std::max<int64_t>(0, budgets[device] - always);
    caps[device] =
        found.timing.peak_bytes[device] * static_cast<double>(left) / static_cast<double>(std::max<int64_t>(1, peaks[device] - always));
  }
  return caps;
}

}  // namespace sluice::parallel
