// Times every op case marked `bench`, forward and forward with backward, in f32 on one core.
//
// A row's GFLOP/s and GB/s come from the cost that the op itself declares (compulsory traffic), and %limit is the time that the nearer
// of the two measured limits of this machine would take, over the time taken. Data that stays in a cache can pass 100 %: the
// bandwidth limit is that of DRAM.
// usage: op_bench [--benchmark_filter=softmax] [any other option of Google Benchmark]
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "autograd/backward.h"
#include "core/machine_limits.h"
#include "core/ops/copy.h"
#include "tests/ops/op_case.h"

namespace sluice::testing {
namespace {

struct Limits {
  double flops_per_second = measured_peak_flops(1);
  double bytes_per_second = measured_bandwidth();

  double seconds(const Cost& cost) const {
    return std::max(cost.flops / flops_per_second, (cost.bytes_read + cost.bytes_written) / bytes_per_second);
  }
};

enum class Passes { forward, forward_backward };

std::vector<Var> inputs_of(const OpCase& op_case, Passes passes) {
  std::vector<Var> inputs;
  for (const auto& spec : op_case.inputs) {
    const Tensor x = spec.make();
    if (!is_floating(x.dtype())) {
      inputs.emplace_back(x);
      continue;
    }
    const Tensor single = cast(x, DType::f32);
    inputs.push_back(passes == Passes::forward ? Var(single) : Var::input(single));
  }
  return inputs;
}

void run(const OpCase& op_case, Passes passes, const std::vector<Var>& inputs, const Tensor& dy) {
  const Var y = op_case.run(inputs);
  benchmark::DoNotOptimize(y.shape());
  if (passes == Passes::forward_backward) Backward(y, dy).run();
}

void time_case(benchmark::State& state, const OpCase& op_case, Passes passes, const Limits& limits) {
  const auto inputs = inputs_of(op_case, passes);
  const Tensor y = op_case.run(inputs).value();
  const Tensor dy = full(y.shape(), 1, y.dtype());

  const Cost before = default_device()->counted();
  run(op_case, passes, inputs, dy);
  const Cost cost = default_device()->counted() - before;

  const auto start = std::chrono::steady_clock::now();
  for ([[maybe_unused]] auto _ : state) run(op_case, passes, inputs, dy);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double seconds = elapsed.count() / static_cast<double>(state.iterations());

  state.counters["GFLOP/s"] = cost.flops / seconds / 1e9;
  state.counters["GB/s"] = (cost.bytes_read + cost.bytes_written) / seconds / 1e9;
  state.counters["%limit"] = 100 * limits.seconds(cost) / seconds;
}

void register_case(const NamedCase& named, Passes passes, const Limits& limits) {
  const std::string name = named.op + "/" + named.value.name + (passes == Passes::forward ? "/forward" : "/forward_backward");
  benchmark::RegisterBenchmark(name.c_str(), [&named, passes, &limits](benchmark::State& state) {
    time_case(state, named.value, passes, limits);
  })->Unit(benchmark::kMicrosecond);
}

/// The console table under a head line that says the limits.
class Reporter : public benchmark::ConsoleReporter {
 public:
  explicit Reporter(const Limits& limits) : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular), limits_(limits) {}

  bool ReportContext(const Context& context) override {
    GetOutputStream() << "limits of one core, measured now: " << limits_.flops_per_second / 1e9 << " GFLOP/s (f32), "
                      << limits_.bytes_per_second / 1e9 << " GB/s (DRAM)\n";
    name_field_width_ = context.name_field_width;
    return true;
  }

 private:
  const Limits& limits_;
};

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  using namespace sluice::testing;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const Limits limits;
  for (const NamedCase& named : all_cases()) {
    if (!named.value.bench) continue;
    register_case(named, Passes::forward, limits);
    if (named.value.gradient) register_case(named, Passes::forward_backward, limits);
  }
  Reporter reporter(limits);
  benchmark::RunSpecifiedBenchmarks(&reporter);
}
