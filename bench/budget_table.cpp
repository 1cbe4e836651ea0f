#include "bench/budget_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::bench {

namespace {

constexpr double kMiB = 1 << 20;

struct Budget {
  int percent;
  int64_t bytes;
  std::unique_ptr<PlanTrial> chosen;  ///< remat = auto
  bool full_fits;                     ///< remat = full keeps to it as well
};

int64_t largest_peak(const parallel::Prediction& predicted) {
  return std::ranges::max(predicted.devices, {}, &parallel::DevicePrediction::peak_bytes).peak_bytes;
}

double recompute_seconds(SecondsByKind seconds) { return seconds["R"]; }

Budget plan_under(const PlanBench& bench, int micro_batches, int percent, int64_t bytes) {
  auto options = bench.plan_options("1f1b", micro_batches);
  options.memory = bytes;
  options.remat = parallel::Remat::full;
  const bool full_fits = bench.trial(options)->predicted().fits;
  options.remat = parallel::kOpen;
  return {percent, bytes, bench.trial(options), full_fits};
}

/// What rematerialization that is chosen promises against all of it. Under a budget that all of it does not keep to, the cut may have to
/// be another, and only bytes and recomputation are promised.
bool keeps_promise(const PlanTrial& chosen, const PlanTrial& full, bool full_fits) {
  constexpr double kRounding = 1e-9;
  return chosen.has_predicted_bytes() &&
         recompute_seconds(seconds_by_kind(chosen.predicted().trace)) <=
             recompute_seconds(seconds_by_kind(full.predicted().trace)) + kRounding &&
         (!full_fits || chosen.predicted().step_seconds <= full.predicted().step_seconds + kRounding);
}

void print_remat(const std::string& name, const PlanTrial& trial, bool kinds) {
  print_trial(name, trial, kinds);
  fmt::print("    recomputes {:.1f} ms predicted, {:.1f} ms measured\n", 1e3 * recompute_seconds(seconds_by_kind(trial.predicted().trace)),
             1e3 * recompute_seconds(trial.by_kind()));
}

nlohmann::json budget_figures(const Budget& budget, const PlanTrial& full) {
  auto figures = budget.chosen->predicted().fits ? figures_of(*budget.chosen) : nlohmann::json::object();
  figures.update({{"percent", budget.percent},
                  {"budget_bytes", budget.bytes},
                  {"fits", budget.chosen->predicted().fits},
                  {"full_fits", budget.full_fits},
                  {"full_step_seconds", full.seconds()}});
  return figures;
}

/// Prints a budget's lines. Returns whether the plan keeps what it promises.
bool report(const Budget& budget, const PlanTrial& full, bool kinds) {
  fmt::print("budget {} %, {:.1f} MiB a device; remat=full {}\n", budget.percent, static_cast<double>(budget.bytes) / kMiB,
             budget.full_fits ? "fits" : "does not fit");
  if (!budget.chosen->predicted().fits) {
    fmt::print("  remat=auto DOES NOT FIT: {}\n", budget.chosen->predicted().reason);
    return false;
  }
  print_remat("  auto", *budget.chosen, kinds);
  const bool holds = keeps_promise(*budget.chosen, full, budget.full_fits);
  fmt::print("    step / that of remat=full: {:.3f} predicted, {:.3f} measured{}\n",
             budget.chosen->predicted().step_seconds / full.predicted().step_seconds, budget.chosen->seconds() / full.seconds(),
             holds ? "" : "; BREAKS its promise");
  return holds;
}

}  // namespace

BenchResult run_budgets(const PlanBenchOptions& options, const std::vector<int>& budgets_percent) {
  const PlanBench bench(options);
  const int micro_batches = options.micro_batches.front();
  auto plain = bench.plan_options("1f1b", micro_batches);
  const auto none = bench.trial(plain);
  plain.remat = parallel::Remat::full;
  const auto full = bench.trial(plain);
  std::vector<Budget> budgets;
  for (const int percent : budgets_percent)
    budgets.push_back(plan_under(bench, micro_batches, percent, largest_peak(none->predicted()) * percent / 100));

  std::vector<PlanTrial*> trials{none.get(), full.get()};
  for (const Budget& budget : budgets)
    if (budget.chosen->predicted().fits) trials.push_back(budget.chosen.get());
  run_in_turn(trials, bench.batch(), options.steps);

  fmt::print("{}, K={}, batch {}, M={}, 1f1b; without a budget:\n", options.model, options.devices, options.batch, micro_batches);
  print_remat("  none", *none, options.kinds);
  print_remat("  full", *full, options.kinds);
  BenchResult result{{{"none", figures_of(*none)}, {"full", figures_of(*full)}},
                     none->has_predicted_bytes() && full->has_predicted_bytes()};
  for (const Budget& budget : budgets) {
    if (!report(budget, *full, options.kinds)) result.holds = false;
    result.figures["budgets"].push_back(budget_figures(budget, *full));
  }
  return result;
}

}  // namespace sluice::bench
