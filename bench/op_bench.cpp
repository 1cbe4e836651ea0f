// Times ops, forward and backward, and prints each row's percentage of the nearer limit of the device, measured in the same run.
//
// A row's GFLOP/s and GB/s come from the cost that the op itself declares (compulsory traffic), and %limit is the time that the nearer
// of the two measured limits would take, over the time taken. Its label names that limit.
//   op_bench                                    one core, f32: the cases marked `bench`, forward and forward with backward. Data that stays
//                                               in a cache can pass 100 %: the bandwidth limit is that of DRAM
//   op_bench --device cuda:0 --dtype bf16       a GPU: the rows of gpu_cases.h, forward and backward, times of events on its stream
//   op_bench --device meta --dtype bf16         needs no GPU: counts what each of those rows asks of one
// Options of Google Benchmark, such as --benchmark_filter=softmax, come beside these.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "autograd/backward.h"
#include "bench/gpu_cases.h"
#include "bench/gpu_timing.h"
#include "bench/run_program.h"
#include "bench/tuning_option.h"
#include "core/cuda/cudnn.h"
#include "core/machine_limits.h"
#include "core/ops/copy.h"
#include "core/ops/padded_rows.h"

namespace sluice::bench {
namespace {

using testing::NamedCase;
using testing::OpCase;

enum class Passes { forward, backward, forward_backward };
constexpr const char* kPassesNames[] = {"/forward", "/backward", "/forward_backward"};

struct Setting {
  DevicePtr device;
  DType dtype;
  Limits limits;
  bool is_gpu() const { return device->backend() == DeviceKind::cuda; }
  bool counts_only() const { return device->kind() == DeviceKind::meta; }
};

Tensor input_of(const testing::InputSpec& spec, const Setting& setting) {
  if (!setting.counts_only()) return spec.on(setting.device, setting.dtype);
  const Tensor host = spec.make(), x = empty(host.shape(), is_floating(host.dtype()) ? setting.dtype : host.dtype(), setting.device);
  return spec.view ? spec.view(x) : x;
}

Tensor gradient_of(const Tensor& y, const Setting& setting) {
  if (setting.counts_only() || !is_floating(y.dtype())) return empty_like(y);  // of no use where there is no gradient
  if (!setting.is_gpu()) return full(y.shape(), 1, y.dtype());
  const Tensor dense = noise(y.shape(), y.dtype(), setting.device);
  if (y.is_contiguous() || !has_rows(y)) return dense;
  const Tensor rows = empty_rows(y.shape(), y.dtype(), setting.device);  // as y's are: in a model its gradient has them too
  copy(dense, rows);
  return rows;
}

std::vector<Var> inputs_of(const OpCase& op_case, Passes passes, const Setting& setting) {
  std::vector<Var> inputs;
  for (const auto& spec : op_case.inputs) {
    const Tensor x = input_of(spec, setting);
    inputs.push_back(passes == Passes::forward || !is_floating(x.dtype()) ? Var(x) : Var::input(x));
  }
  return inputs;
}

/// One way to run a case over and over.
struct Timed {
  const OpCase& op_case;
  Passes passes;
  const Setting& setting;
  std::vector<Var> inputs = inputs_of(op_case, passes, setting);
  Var y = op_case.run(inputs);
  Tensor dy = gradient_of(y.value(), setting);

  void forward() { y = op_case.run(inputs); }
  void backward() { Backward(y, dy).run(); }
  void prepare() {
    if (passes == Passes::backward) forward();
  }
  void work() {
    if (passes != Passes::backward) forward();
    if (passes != Passes::forward) backward();
    benchmark::DoNotOptimize(y.shape());
  }
  Cost cost() {
    prepare();
    const Cost before = setting.device->counted();
    work();
    return setting.device->counted() - before;
  }
};

double seconds_on_core(benchmark::State& state, Timed& timed) {
  const auto start = std::chrono::steady_clock::now();
  for ([[maybe_unused]] auto _ : state) timed.work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(state.iterations());
}

double seconds_on_gpu(benchmark::State& state, Timed& timed) {
  constexpr int kRepeats = 20;
  double seconds = 0;
  for ([[maybe_unused]] auto _ : state) {
    seconds = gpu_seconds(
        *timed.setting.device, kRepeats, [&] { timed.prepare(); }, [&] { timed.work(); });
    state.SetIterationTime(seconds);
  }
  return seconds;
}

void time_case(benchmark::State& state, const OpCase& op_case, Passes passes, const Setting& setting) {
  Timed timed{op_case, passes, setting};
  const Cost cost = timed.cost();
  const double seconds = setting.is_gpu() ? seconds_on_gpu(state, timed) : seconds_on_core(state, timed);
  state.counters["GFLOP/s"] = cost.flops / seconds / 1e9;
  state.counters["GB/s"] = (cost.bytes_read + cost.bytes_written) / seconds / 1e9;
  state.counters["%limit"] = 100 * setting.limits.seconds(cost) / seconds;
  state.SetLabel(setting.limits.is_memory_bound(cost) ? "memory" : "arithmetic");
}

std::string row_name(const NamedCase& named, Passes passes) {
  return named.op + "/" + named.value.name + kPassesNames[static_cast<int>(passes)];
}

void register_case(const NamedCase& named, Passes passes, const Setting& setting) {
  const std::string name = row_name(named, passes);
  auto* row = benchmark::RegisterBenchmark(name.c_str(), [&named, passes, &setting](benchmark::State& state) {
    try {
      time_case(state, named.value, passes, setting);
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  });
  row->Unit(benchmark::kMicrosecond);
  if (setting.is_gpu()) row->UseManualTime()->Iterations(1);
}

void register_all(const std::vector<NamedCase>& cases, const Setting& setting) {
  for (const NamedCase& named : cases) {
    if (!setting.is_gpu() && !named.value.bench) continue;
    register_case(named, Passes::forward, setting);
    if (named.value.gradient) register_case(named, setting.is_gpu() ? Passes::backward : Passes::forward_backward, setting);
  }
}

/// Runs every row on a device that only counts.
int count_rows(const std::vector<NamedCase>& cases, const Setting& setting) {
  for (const NamedCase& named : cases)
    for (const Passes passes : {Passes::forward, Passes::backward}) {
      if (passes == Passes::backward && !named.value.gradient) continue;
      const Cost cost = Timed{named.value, passes, setting}.cost();
      std::printf("%-50s %12.6f GFLOP %12.6f GB\n", row_name(named, passes).c_str(), cost.flops / 1e9,
                  (cost.bytes_read + cost.bytes_written) / 1e9);
    }
  return 0;
}

/// The console table under a head line that says the limits.
class Reporter : public benchmark::ConsoleReporter {
 public:
  explicit Reporter(const Setting& setting) : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular), setting_(setting) {}

  bool ReportContext(const Context& context) override {
    GetOutputStream() << "limits of " << (setting_.is_gpu() ? setting_.device->name() : "one core")
                      << ", measured now: " << setting_.limits.flops_per_second / 1e9 << " GFLOP/s (" << name_of(setting_.dtype) << "), "
                      << setting_.limits.bytes_per_second / 1e9 << " GB/s\n";
    name_field_width_ = context.name_field_width;
    return true;
  }

 private:
  const Setting& setting_;
};

Setting setting_of(const std::string& device, const std::string& dtype) {
  if (device.starts_with("cuda")) {
    const DevicePtr gpu = make_device(device);
    const DType chosen = dtype_named(dtype);
    return {gpu, chosen, measured_limits(gpu, chosen)};
  }
  if (device == "meta")
    return {std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = DeviceKind::cuda}), dtype_named(dtype), {1, 1}};
  require<UsageError>(device == "cpu:0" && dtype == "f32", "needs --device cuda:N, meta, or cpu:0 with f32, got ", device, " and ", dtype);
  return {default_device(), DType::f32, {measured_peak_flops(1), measured_bandwidth()}};
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app{"Times ops in percent of the device's limits"};
  std::string device = "cpu:0", dtype = "f32";
  app.add_option("--device", device, "cpu:0, cuda:N or meta");
  app.add_option("--dtype", dtype, "of floating inputs: f32, or bf16 on a GPU");
  Tuning tuning = Tuning::off;
  add_tuning(app, tuning);
  CLI11_PARSE(app, argc, argv);
  const Setting setting = setting_of(device, dtype);
  benchmark::AddCustomContext("copy_GB/s", std::to_string(setting.limits.bytes_per_second / 1e9));
  benchmark::AddCustomContext("product_TFLOP/s", std::to_string(setting.limits.flops_per_second / 1e12));
  const std::string no_cudnn = cudnn::unavailable_reason();
  benchmark::AddCustomContext("cuDNN", no_cudnn.empty() ? cudnn::version_text() : no_cudnn);
  const std::vector<NamedCase> cases = setting.is_gpu() ? gpu_cases() : testing::all_cases();
  if (setting.counts_only()) return count_rows(cases, setting);
  register_all(cases, setting);
  const TuningScope scope(limits_of(tuning));
  Reporter reporter(setting);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run_program("op_bench", sluice::bench::run, argc, argv); }
