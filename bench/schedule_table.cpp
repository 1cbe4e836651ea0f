#include "bench/schedule_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace sluice::bench {

namespace {

/// One schedule's plan among those of one number of micro-batches.
struct Row {
  std::string schedule;
  std::unique_ptr<PlanTrial> trial;
};

const PlanTrial* find(const std::vector<Row>& rows, const std::string& schedule) {
  const auto row = std::ranges::find(rows, schedule, &Row::schedule);
  return row == rows.end() ? nullptr : row->trial.get();
}

/// Seconds that a schedule idles less than 1f1b by the formulas of docs/schedules.md, for stages of equal cost; nothing where they
/// promise none.
double promised_gain(const Row& row, int devices, int micro_batches) {
  double forward = 0, backward = 0;
  for (const auto& node : row.trial->plan().times.at(0)) {
    forward += node.forward / devices;
    backward += node.backward / devices;
  }
  const double idle = (devices - 1) * (forward + backward);
  if (row.schedule == "interleaved") {
    const auto virtual_stages = static_cast<double>(parallel::device_of_stage(row.trial->plan()).size()) / devices;
    return idle - idle / virtual_stages;
  }
  return row.schedule == "zb-v" && micro_batches >= 2 * devices - 1 ? idle - (devices - 1) * forward / 2 : 0;
}

void compare_with_1f1b(const std::vector<Row>& rows, int devices, int micro_batches) {
  const PlanTrial* usual = find(rows, "1f1b");
  if (!usual) return;
  for (const Row& row : rows) {
    const double promised = promised_gain(row, devices, micro_batches);
    if (promised <= 0) continue;
    const double predicted = usual->predicted().step_seconds - row.trial->predicted().step_seconds;
    const double measured = usual->seconds() - row.trial->seconds();
    fmt::print("  {} idles {:.1f} ms less than 1f1b by formula; step {:+.1f} ms predicted, {:+.1f} ms measured: {}\n", row.schedule,
               1e3 * promised, -1e3 * predicted, -1e3 * measured, measured > 0 ? "faster" : "not faster");
  }
}

void compare_auto(const std::vector<Row>& rows) {
  const PlanTrial* open = find(rows, "auto");
  const Row* best = nullptr;
  for (const Row& row : rows)
    if (row.schedule != "auto" && (!best || row.trial->seconds() < best->trial->seconds())) best = &row;
  if (!open || !best) return;
  fmt::print("  auto ({}) / best named schedule ({}): {:.3f}\n", name_of(open->plan().schedule), best->schedule,
             open->seconds() / best->trial->seconds());
}

/// Plans on all devices, and on one device alone for the numbers of micro-batches that it is asked for, run in turn.
struct Rows {
  std::vector<Row> plans, alone;
};

Rows run_rows(const PlanBench& bench, const PlanBenchOptions& options, int micro_batches) {
  Rows rows;
  for (const auto& schedule : options.schedules) rows.plans.push_back({schedule, bench.trial(bench.plan_options(schedule, micro_batches))});
  for (const int number : options.alone)
    rows.alone.push_back({fmt::format("alone, M={}", number), bench.trial_alone(bench.plan_options("gpipe", number))});
  std::vector<PlanTrial*> trials;
  for (const auto* part : {&rows.plans, &rows.alone})
    for (const Row& row : *part) trials.push_back(row.trial.get());
  run_in_turn(trials, bench.batch(), options.steps);
  return rows;
}

void compare_with_one_device(const Rows& rows) {
  if (rows.alone.empty()) return;
  const Row& best = *std::ranges::min_element(rows.alone, {}, [](const Row& row) { return row.trial->seconds(); });
  fmt::print("  as fast as one device ({}):", best.schedule);
  for (const Row& row : rows.plans) fmt::print(" {} {:.2f}", row.schedule, best.trial->seconds() / row.trial->seconds());
  fmt::print("\n");
}

}  // namespace

PlanBench::PlanBench(const PlanBenchOptions& options)
    : options_(options), model_(step_model({.name = options.model, .samples = options.batch})) {}

parallel::PlanOptions PlanBench::plan_options(const std::string& schedule, int micro_batches) const {
  parallel::PlanOptions plan;
  plan.batch = options_.batch;
  plan.micro_batches = micro_batches;
  plan.schedule = schedule_of_word(schedule);
  plan.optimizer = model_.optimizer.get();
  plan.times = [this](int64_t samples, const DevicePtr&) { return times(samples); };
  return plan;
}

std::unique_ptr<PlanTrial> PlanBench::trial(const parallel::PlanOptions& options) const {
  return std::make_unique<PlanTrial>(model_, options_.devices, options);
}

std::unique_ptr<PlanTrial> PlanBench::trial_alone(const parallel::PlanOptions& options) const {
  return std::make_unique<PlanTrial>(model_, 1, options);
}

const std::vector<parallel::NodeTimes>& PlanBench::times(int64_t samples) const {
  auto& known = times_[samples];
  if (!known.empty()) return known;
  const auto began = std::chrono::steady_clock::now();
  known = parallel::profile_nodes(model_.graph, batch(), samples, make_device("cpu:0", {.threads = 1}), Precision::f32, *model_.optimizer,
                                  {.devices = options_.devices});
  fmt::print("profile of micro-batches of {}: {:.1f} s\n", samples,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return known;
}

std::string bytes_text(const PlanTrial& trial) {
  constexpr double kMiB = 1 << 20;
  std::string text;
  const auto peaks = trial.peak_bytes();
  for (size_t device = 0; device < peaks.size(); ++device) {
    const int64_t predicted = trial.predicted().devices[device].peak_bytes;
    text += fmt::format("{}{:.1f}", device ? ", " : "", static_cast<double>(peaks[device]) / kMiB);
    if (predicted != peaks[device]) text += fmt::format(" (predicted {} bytes, measured {})", predicted, peaks[device]);
  }
  return text + " MiB" + (trial.has_predicted_bytes() ? " as predicted" : "");
}

void print_trial(const std::string& name, const PlanTrial& trial, bool kinds) {
  const auto& predicted = trial.predicted();
  fmt::print("{:<12} step {:8.1f} ms predicted {:8.1f} ms measured {:+6.1f} %   bubble {:5.1f} % {:5.1f} %   peak {}\n", name,
             1e3 * predicted.step_seconds, 1e3 * trial.seconds(), 100 * trial.deviation(), 100 * predicted.bubble, 100 * trial.bubble(),
             bytes_text(trial));
  if (!kinds) return;
  auto planned = seconds_by_kind(predicted.trace);
  for (const auto& [kind, seconds] : trial.by_kind())
    fmt::print("    {:<4} {:8.1f} ms predicted {:8.1f} ms measured {:+6.1f} %\n", kind, 1e3 * planned[kind], 1e3 * seconds,
               planned[kind] > 0 ? 100 * (seconds / planned[kind] - 1) : 0);
}

nlohmann::json figures_of(const PlanTrial& trial) {
  const auto& predicted = trial.predicted();
  nlohmann::json figures = {{"micro_batches", trial.plan().micro_batches},
                            {"partition", trial.plan().partition.stage_sizes()},
                            {"step_seconds", {{"predicted", predicted.step_seconds}, {"measured", trial.seconds()}}},
                            {"bubble", {{"predicted", predicted.bubble}, {"measured", trial.bubble()}}},
                            {"deviation", trial.deviation()},
                            {"seconds_by_kind", {{"predicted", seconds_by_kind(predicted.trace)}, {"measured", trial.by_kind()}}}};
  const auto peaks = trial.peak_bytes();
  for (size_t device = 0; device < peaks.size(); ++device)
    figures["peak_bytes"].push_back({{"predicted", predicted.devices[device].peak_bytes}, {"measured", peaks[device]}});
  return figures;
}

BenchResult run_schedules(const PlanBenchOptions& options) {
  const PlanBench bench(options);
  BenchResult result;
  std::vector<double> deviations;
  for (const int micro_batches : options.micro_batches) {
    const auto rows = run_rows(bench, options, micro_batches);
    fmt::print("{}, K={}, batch {}, M={}\n", options.model, options.devices, options.batch, micro_batches);
    for (const Row& row : rows.plans) {
      print_trial(row.schedule, *row.trial, options.kinds);
      deviations.push_back(std::abs(row.trial->deviation()));
      result.holds = result.holds && row.trial->has_predicted_bytes();
      auto figures = figures_of(*row.trial);
      figures["schedule"] = row.schedule;
      result.figures["plans"].push_back(figures);
    }
    for (const Row& row : rows.alone) {
      print_trial(row.schedule, *row.trial, options.kinds);
      result.figures["alone"].push_back(figures_of(*row.trial));
    }
    compare_auto(rows.plans);
    compare_with_1f1b(rows.plans, options.devices, micro_batches);
    compare_with_one_device(rows);
  }
  result.figures["median_deviation"] = median_of(deviations);
  fmt::print("median deviation {:.1f} %, largest {:.1f} %; peak bytes {}\n", 100 * median_of(deviations),
             100 * std::ranges::max(deviations), result.holds ? "as predicted" : "NOT as predicted");
  return result;
}

}  // namespace sluice::bench
