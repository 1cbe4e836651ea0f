// How true plans are: measured nodes, planned steps, and the same steps run, on K CPU devices of one thread.
//
//   plan_bench                                        GPT on two devices: every schedule at M = 2, 8 and 32
//   plan_bench --model amoebanet --micro-batches 8    one number of micro-batches of AmoebaNet-D
//   plan_bench --micro-batches 8 --alone 1,2,4        beside one device at its best M
//   plan_bench --budgets 100,75,50,35                 rematerialization under budgets, in percent of what none needs
//
// Ends with 1 when bytes differ from those predicted or a plan breaks its promise, with 0 and "skipped" on a machine of fewer cores.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/budget_table.h"
#include "bench/run_program.h"
#include "bench/schedule_table.h"

namespace sluice::bench {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Predicted against measured training steps"};
  PlanBenchOptions options;
  std::string json;
  std::vector<int> budgets;
  app.add_option("--model", options.model, "gpt, gpt-bytes or amoebanet");
  app.add_option("--devices", options.devices, "K, CPU devices of one thread")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "samples a mini-batch")->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", options.micro_batches, "M, one or several")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--schedules", options.schedules, "what is planned")->delimiter(',')->check(CLI::IsMember(schedule_words()));
  app.add_option("--alone", options.alone, "M of one device's steps, to compare with")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "timed steps of each plan")->check(CLI::PositiveNumber);
  app.add_option("--budgets", budgets, "percent of the peak without rematerialization")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_flag("--kinds", options.kinds, "seconds of each kind of action too, predicted and measured");
  app.add_option("--json", json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  if (const int cores = static_cast<int>(std::thread::hardware_concurrency()); cores < options.devices) {
    fmt::print("skipped: {} devices of one thread need {} cores, this machine has {}\n", options.devices, options.devices, cores);
    return 0;
  }
  if (!budgets.empty() && app.count("--micro-batches") == 0) options.micro_batches = {2};
  const BenchResult result = budgets.empty() ? run_schedules(options) : run_budgets(options, budgets);
  if (!json.empty()) std::ofstream(json) << result.figures.dump(2) << '\n';
  return result.holds ? 0 : 1;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run_program("plan_bench", sluice::bench::run, argc, argv); }
