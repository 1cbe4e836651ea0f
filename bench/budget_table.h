#pragma once
#include <vector>

#include "bench/schedule_table.h"

namespace sluice::bench {

/// Rematerialization that is chosen against all of it, under budgets in percent of the peak bytes that 1f1b needs without any.
/// The choice must fit, recompute no more than all, and be predicted no slower where all of it fits too.
BenchResult run_budgets(const PlanBenchOptions& options, const std::vector<int>& budgets_percent);

}  // namespace sluice::bench
