// Whole training steps of a GPT, an AmoebaNet and others: K = 1, 2, M = 1..32, both schedules, remat on and off.
//
//   step_bench [--benchmark_filter=K=2]     Google Benchmark over all choices, with percent of the measured peak
//   step_bench --compare 7                  7 rounds of the choices that docs/performance.md quotes, in turn, and their ratios
//   step_bench --compare 7 --model amoebanet --layers 6 --filters 64 --image-size 64 --batch 32   the same of AmoebaNet-D
//   step_bench --steps 20 --model gpt2-124m --device cuda:0 --precision bf16 --batch 32   one choice: median, items a second, TFLOP/s
//   step_bench --steps 20 --nodes ...       the same, and the milliseconds of each node inside such steps
//   step_bench --serve --threads 1 --batch 8   one step for each line on stdin; answers {"step_ms": x, "cpu_ms": y}: for bench/peers/run
//   step_bench --model translation --batch 16 --padding buckets --write-batches FILE   the mini-batches of such a step, and no step
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/node_times.h"
#include "bench/run_program.h"
#include "bench/schedule_word.h"
#include "bench/training_step.h"
#include "bench/tuning_option.h"
#include "core/error.h"
#include "core/machine_limits.h"

namespace sluice::bench {
namespace {

double timed_step_ms(TrainingStep& step) {
  const auto began = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(step.run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

int serve(const StepChoice& choice) {
  TrainingStep step(choice);
  for (std::string line; std::getline(std::cin, line);) {
    const std::clock_t began = std::clock();  // of all threads: what neighbours disturb less
    const double step_ms = timed_step_ms(step);
    std::printf("{\"step_ms\": %.3f, \"cpu_ms\": %.3f}\n", step_ms, 1e3 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
    std::fflush(stdout);
  }
  return 0;
}

/// [{"source": [[id, ...], ...], "source_length": [n, ...], ...}, ...], what a peer trains on, too.
int write_batches(const StepChoice& choice, const std::string& path) {
  const StepModel model = step_model({choice.model, choice.batch, choice.image, choice.padding, choice.sequence});
  nlohmann::json batches;
  for (const Batch& batch : model.batches)
    for (auto& written = batches.emplace_back(); const auto& input : model.graph.inputs()) {
      const Tensor ids = batch.load(input.name, 0, batch.samples);
      require<UsageError>(ids.dtype() == DType::i32, "--write-batches: needs a model of tokens, got input ", input.name, " of ",
                          choice.model);
      const int64_t row = ids.elements() / batch.samples;
      for (const int32_t* first = ids.data<int32_t>(); first != ids.data<int32_t>() + ids.elements(); first += row)
        if (input.sample_shape->rank() == 0)
          written[input.name].push_back(*first);
        else
          written[input.name].push_back(std::vector(first, first + row));
    }
  std::ofstream file(path);
  file << batches << std::endl;
  require<DataError>(file.good(), "--write-batches: needs a file to write, got ", path);
  return 0;
}

int summarize(const StepChoice& choice, int steps) {
  constexpr int kWarmUp = 3;
  TrainingStep step(choice);
  std::vector<double> times_ms;
  for (int i = 0; i < kWarmUp + steps; ++i) {
    const double step_ms = timed_step_ms(step);
    if (i >= kWarmUp) times_ms.push_back(step_ms);
  }
  const StepModel& model = step.model();
  const double median_ms = median_of(times_ms), a_second = 1e3 / median_ms;
  std::printf("%s: median %.2f ms  %.0f %s/s  %.2f TFLOP/s (%s)\n", choice.name().c_str(), median_ms, a_second * model.items, model.item,
              a_second * model.flops / 1e12, model.flops_rule);
  return 0;
}

/// The nodes of a step and how much of it they are.
int summarize_nodes(const StepChoice& choice, int steps) {
  const NodeTimes times = node_times(choice, steps);
  double sum_ms = times.update_ms;
  for (const auto& node : times.nodes) {
    std::printf("node %-32s forward %10.4f ms  backward %10.4f ms\n", node.name.c_str(), node.forward_ms, node.backward_ms);
    sum_ms += node.forward_ms + node.backward_ms;
  }
  std::printf("norm and update %.4f ms; all together %.4f ms of a step of %.4f ms\n", times.update_ms, sum_ms, times.step_ms);
  return 0;
}

struct Row {
  StepChoice choice;
  std::unique_ptr<TrainingStep> step;
  std::vector<double> times_ms;

  double median() const { return median_of(times_ms); }
};

/// What is compared: a bare loop and the executor, then one device over M and two devices at what they need many micro-batches for.
std::vector<StepChoice> compared(const StepChoice& of) {
  const bool of_images = of.model == "amoebanet";
  const int64_t batch = of_images ? of.batch : 16;
  std::vector<StepChoice> choices;
  const auto add = [&](int devices, int micro_batches, int64_t samples, bool bare) {
    StepChoice choice = of;
    choice.devices = devices;
    choice.micro_batches = micro_batches;
    choice.batch = samples;
    choice.bare = bare;
    choices.push_back(choice);
  };
  for (bool bare : {true, false}) add(1, 1, of.batch, bare);
  for (int micro_batches : {1, 2, 4, 8, 16})
    if (of.batch != batch || micro_batches > 1) add(1, micro_batches, batch, false);
  if (of_images) add(2, 4, batch, false);
  for (int micro_batches : of_images ? std::array{16, 8} : std::array{8, 16}) add(2, micro_batches, batch, false);
  return choices;
}

int compare(const StepChoice& of, int rounds) {
  std::vector<Row> rows;
  for (const StepChoice& choice : compared(of)) rows.push_back({choice, std::make_unique<TrainingStep>(choice), {}});
  for (auto& row : rows) row.step->run();
  for (int round = 0; round < rounds; ++round)
    for (auto& row : rows) row.times_ms.push_back(timed_step_ms(*row.step));
  for (const auto& row : rows)
    std::printf("%-60s median %8.1f ms  min %8.1f ms\n", row.choice.name().c_str(), row.median(), *std::ranges::min_element(row.times_ms));
  const Row& piped = rows.back();
  double best_single = HUGE_VAL;
  for (const auto& row : rows)
    if (row.choice.devices == 1 && !row.choice.bare && row.choice.batch == piped.choice.batch)
      best_single = std::min(best_single, row.median());
  std::printf("executor / bare loop: %.3f\n", rows[1].median() / rows[0].median());
  std::printf("one device at its best M / two devices, M=%d: %.3f\n", piped.choice.micro_batches, best_single / piped.median());
  return 0;
}

void run_choice(benchmark::State& state, const StepChoice& choice) {
  static const double peak = measured_peak_flops(1);
  TrainingStep step(choice);
  step.run();
  for (auto _ : state) benchmark::DoNotOptimize(step.run());
  const StepModel& model = step.model();
  const auto a_second = [](double amount) { return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate); };
  state.counters[std::string(model.item) + "/s"] = a_second(model.items);
  state.counters["%peak"] = a_second(100 * model.flops / (peak * choice.devices));
}

void register_all(StepChoice choice) {
  choice.batch = 32;
  for (int devices : {1, 2})
    for (int micro_batches : {1, 2, 4, 8, 16, 32})
      for (const std::string schedule : {"gpipe", "1f1b"})
        for (const auto remat : {parallel::Remat::none, parallel::Remat::full}) {
          if (devices == 1 && schedule == "gpipe") continue;  // differs in memory only
          choice.devices = devices;
          choice.micro_batches = micro_batches;
          choice.schedule = schedule;
          choice.remat = remat;
          benchmark::RegisterBenchmark(("step/" + choice.name()).c_str(), [choice](benchmark::State& state) { run_choice(state, choice); })
              ->Unit(benchmark::kMillisecond)
              ->UseRealTime()
              ->MinTime(2);
        }
}

int run(int argc, char** argv) {
  CLI::App app{"Whole training steps of a GPT, an AmoebaNet and others"};
  app.allow_extras();
  StepChoice choice;
  bool serving = false, nodes = false;
  int rounds = 0, steps = 0;
  app.add_flag("--serve", serving, "one step for each line on stdin");
  app.add_option("--steps", steps, "timed steps of one choice");
  app.add_flag("--nodes", nodes, "with --steps: also every node inside the steps");
  app.add_option("--compare", rounds, "rounds of the choices that are compared");
  app.add_option("--model", choice.model, "gpt, gpt-bytes, gpt2-124m, gpt2-1558m, amoebanet, moe, lstm, gru or translation");
  app.add_option("--sequence", choice.sequence, "items of each sample of lstm and gru");
  app.add_option("--layers", choice.image.layers, "normal cells of amoebanet");
  app.add_option("--filters", choice.image.filters, "of amoebanet");
  app.add_option("--image-size", choice.image.image_size, "pixels, of amoebanet");
  std::string padding, batches_file;
  app.add_option("--padding", padding, "of translation: none, buckets, or worked-on, which works on the padding of buckets")
      ->check(CLI::IsMember({"none", "buckets", "worked-on"}));
  app.add_option("--write-batches", batches_file, "writes the mini-batches of translation to this file, and ends");
  app.add_option("--device", choice.device, "cpu, or a GPU: cuda:0");
  app.add_option("--devices", choice.devices, "stages");
  app.add_option("--micro-batches", choice.micro_batches, "M");
  std::string partition, remat;
  app.add_option("--schedule", choice.schedule, "1f1b where none is said; auto: any order of work")->check(CLI::IsMember(schedule_words()));
  app.add_option("--partition", partition, "auto, parameters or uniform")->check(CLI::IsMember({"auto", "parameters", "uniform"}));
  app.add_option("--remat", remat, "none or full")->check(CLI::IsMember({"none", "full"}));
  app.add_option("--threads", choice.threads, "intra-op threads a device");
  app.add_option("--batch", choice.batch, "samples a mini-batch");
  app.add_option("--precision", choice.precision, "f32, tf32 or bf16");
  app.add_flag("--graphs", choice.cuda_graphs, "launches kernels as CUDA graphs");
  add_tuning(app, choice.tuning);
  app.add_flag("--bare", choice.bare, "without the executor");
  CLI11_PARSE(app, argc, argv);
  if (partition == "parameters") choice.partition = parallel::PartitionRule::parameters;
  if (partition == "uniform") choice.partition = parallel::PartitionRule::uniform;
  if (remat == "full") choice.remat = parallel::Remat::full;
  if (padding == "buckets") choice.padding = Padding::buckets;
  if (padding == "worked-on") choice.padding = Padding::worked_on;
  if (!batches_file.empty()) return write_batches(choice, batches_file);
  if (serving) return serve(choice);
  if (steps > 0 && summarize(choice, steps) == 0) return nodes ? summarize_nodes(choice, steps) : 0;
  if (rounds > 0) return compare(choice, rounds);
  register_all(choice);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run_program("step_bench", sluice::bench::run, argc, argv); }
