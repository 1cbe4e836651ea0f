// Whole training steps of a GPT: K = 1, 2, M = 1..32, both schedules, remat on and off.
//
//   step_bench [--benchmark_filter=K=2]     Google Benchmark over all choices, with percent of the measured peak
//   step_bench --compare 7                  7 rounds of the choices that docs/performance.md quotes, in turn, and their ratios
//   step_bench --steps 20 --model gpt2-124m --device cuda:0 --precision bf16 --batch 32   one choice: median, tokens a second, TFLOP/s
//   step_bench --serve --threads 1 --batch 8   one step for each line on stdin; answers {"step_ms": x}: for bench/peers/run
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpt_step.h"
#include "core/machine_limits.h"

namespace sluice::bench {
namespace {

double timed_step_ms(GptStep& step) {
  const auto began = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(step.run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

int serve(const StepChoice& choice) {
  GptStep step(choice);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("{\"step_ms\": %.3f}\n", timed_step_ms(step));
    std::fflush(stdout);
  }
  return 0;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int summarize(const StepChoice& choice, int steps) {
  constexpr int kWarmUp = 3;
  GptStep step(choice);
  std::vector<double> times_ms;
  for (int i = 0; i < kWarmUp + steps; ++i) {
    const double step_ms = timed_step_ms(step);
    if (i >= kWarmUp) times_ms.push_back(step_ms);
  }
  const GptModel& model = gpt_model(choice.model);
  const double median_ms = median_of(times_ms);
  const double tokens_per_second = 1e3 * static_cast<double>(choice.batch * model.options.context) / median_ms;
  std::printf("%s: median %.2f ms  %.0f tokens/s  %.2f TFLOP/s (6N + 6LCT)\n", choice.name().c_str(), median_ms, tokens_per_second,
              tokens_per_second * model.flops_a_token() / 1e12);
  return 0;
}

struct Row {
  StepChoice choice;
  std::unique_ptr<GptStep> step;
  std::vector<double> times_ms;

  double median() const { return median_of(times_ms); }
};

int compare(int rounds) {
  std::vector<Row> rows;
  const auto add = [&](const StepChoice& choice) { rows.push_back({choice, std::make_unique<GptStep>(choice), {}}); };
  add({.batch = 8, .bare = true});
  add({.batch = 8});
  for (int micro_batches : {1, 2, 4, 8, 16}) add({.micro_batches = micro_batches, .batch = 16});
  for (int micro_batches : {8, 16}) add({.devices = 2, .micro_batches = micro_batches, .batch = 16});
  for (auto& row : rows) row.step->run();
  for (int round = 0; round < rounds; ++round)
    for (auto& row : rows) row.times_ms.push_back(timed_step_ms(*row.step));
  for (const auto& row : rows)
    std::printf("%-50s median %8.1f ms  min %8.1f ms\n", row.choice.name().c_str(), row.median(), *std::ranges::min_element(row.times_ms));
  double best_single = HUGE_VAL;
  for (const auto& row : rows)
    if (row.choice.devices == 1 && row.choice.batch == rows.back().choice.batch) best_single = std::min(best_single, row.median());
  std::printf("executor / bare loop: %.3f\n", rows[1].median() / rows[0].median());
  std::printf("one device at its best M / two devices, M=16: %.3f\n", best_single / rows.back().median());
  return 0;
}

void register_all() {
  static const double peak = measured_peak_flops(1);
  for (int devices : {1, 2})
    for (int micro_batches : {1, 2, 4, 8, 16, 32})
      for (const char* schedule : {"gpipe", "1f1b"})
        for (const char* remat : {"none", "full"}) {
          if (devices == 1 && std::string(schedule) == "gpipe") continue;  // differs in memory only
          const StepChoice choice{.devices = devices, .micro_batches = micro_batches, .schedule = schedule, .remat = remat, .batch = 32};
          benchmark::RegisterBenchmark(("step/" + choice.name()).c_str(),
                                       [choice](benchmark::State& state) {
                                         GptStep step(choice);
                                         step.run();
                                         for (auto _ : state) benchmark::DoNotOptimize(step.run());
                                         const GptModel& model = gpt_model(choice.model);
                                         const double tokens = static_cast<double>(choice.batch * model.options.context);
                                         state.counters["tokens/s"] =
                                             benchmark::Counter(tokens, benchmark::Counter::kIsIterationInvariantRate);
                                         const double flops = model.flops_a_token() * tokens;
                                         state.counters["%peak"] = benchmark::Counter(100 * flops / (peak * choice.devices),
                                                                                      benchmark::Counter::kIsIterationInvariantRate);
                                       })
              ->Unit(benchmark::kMillisecond)
              ->UseRealTime()
              ->MinTime(2);
        }
}

int run(int argc, char** argv) {
  CLI::App app{"Whole training steps of a GPT"};
  app.allow_extras();
  StepChoice choice;
  bool serving = false;
  int rounds = 0, steps = 0;
  app.add_flag("--serve", serving, "one step for each line on stdin");
  app.add_option("--steps", steps, "timed steps of one choice");
  app.add_option("--compare", rounds, "rounds of the choices that are compared");
  app.add_option("--model", choice.model, "gpt or gpt2-124m");
  app.add_option("--device", choice.device, "cpu, or a GPU: cuda:0");
  app.add_option("--devices", choice.devices, "stages");
  app.add_option("--micro-batches", choice.micro_batches, "M");
  app.add_option("--schedule", choice.schedule, "gpipe or 1f1b");
  app.add_option("--remat", choice.remat, "none or full");
  app.add_option("--threads", choice.threads, "intra-op threads a device");
  app.add_option("--batch", choice.batch, "samples a mini-batch");
  app.add_option("--precision", choice.precision, "f32, tf32 or bf16");
  app.add_flag("--bare", choice.bare, "without the executor");
  CLI11_PARSE(app, argc, argv);
  if (serving) return serve(choice);
  if (steps > 0) return summarize(choice, steps);
  if (rounds > 0) return compare(rounds);
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  try {
    return sluice::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: error: %s\n", error.what());
    return 2;
  }
}
