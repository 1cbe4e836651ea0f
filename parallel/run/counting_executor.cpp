#include "parallel/run/counting_executor.h"

#include <algorithm>

#include "parallel/program/program_bytes.h"
#include "parallel/program/verify.h"

namespace sluice::parallel {

namespace {

/// Meta devices that are named, and count, like others.
std::vector<DevicePtr> stand_ins(const CountingExecutor::Devices& devices, bool with_budgets) {
  require(devices.speeds.empty() || devices.speeds.size() == devices.counted.size(), "count: needs a speed for each of ",
          devices.counted.size(), " devices or none, got ", devices.speeds.size());
  require(devices.beside.empty() || devices.beside.size() == devices.counted.size(), "count: needs bytes beside for each of ",
          devices.counted.size(), " devices or none, got ", devices.beside.size());
  std::vector<DevicePtr> made;
  for (size_t i = 0; i < devices.counted.size(); ++i) {
    const Device& device = *devices.counted[i];
    const std::string name = device.name();
    made.push_back(std::make_shared<Device>(DeviceKind::meta, device.index(),
                                            Device::Options{.budget_bytes = with_budgets ? device.budget_bytes() : kUnlimited,
                                                            .threads = device.options().threads,
                                                            .speed = devices.speeds.empty() ? DeviceSpeed{} : devices.speeds[i],
                                                            .stands_for = device.backend(),
                                                            .model = name.substr(0, name.rfind(':')),
                                                            .host = device.options().host,
                                                            .tallies_kernels = device.options().tallies_kernels}));
    if (!devices.beside.empty()) made.back()->charge(devices.beside[i]);
  }
  return made;
}

}  // namespace

CountingExecutor::CountingExecutor(const layers::Graph& graph, const Layout& layout, const Devices& devices, const StageOptions& options)
    : CountingExecutor(graph, layout, devices, options, false) {}

CountingExecutor::CountingExecutor(const layers::Graph& graph, const Layout& layout, const Devices& devices, const StageOptions& options,
                                   bool with_budgets)
    : graph_(graph), devices_(devices), options_(options) {
  constexpr double kNoWait = 0;  // devices that only count take turns
  executor_ = std::make_unique<Executor>(graph, layout, stand_ins(devices, with_budgets), options, kNoWait);
  for (const auto& device : executor_->devices()) first_peaks_.push_back(device->peak_bytes());
}

RunResult CountingExecutor::run(const Program& program, const BatchShape& shape, bool keeps_output, const Sequences* sequences) {
  const Batch batch = meta_batch(shape);
  RunContext run;
  run.batch = &batch;
  run.shape = shape;
  run.first_sample = micro_batch_bounds(shape.samples, program.micro_batches);
  run.training = program.training;
  run.keeps_output = keeps_output;
  run.sequences = sequences;
  StepContext step;
  if (program.training) step = {options_.optimizer, {.learning_rate = 0, .step = 1, .clip = {}}};
  return executor_->run(program, run, step);
}

namespace {

/// The groups from `first` on, one a micro-batch.
Sequences groups_from(int first, const Program& program, const BatchShape& shape, const SequencesShape& all, int64_t length) {
  const auto bounds = micro_batch_bounds(shape.samples, program.micro_batches);
  Sequences sequences{all.tokens_input, all.capacity};
  for (int m = 0; m < program.micro_batches; ++m) {
    sequences.groups.push_back(first + m);
    sequences.lengths.push_back(length);
    if (all.moves_rows) sequences.parents.emplace_back(bounds[m + 1] - bounds[m], 0);
  }
  return sequences;
}

}  // namespace

RunResult CountingExecutor::count(Program& program, const BatchShape& shape, bool keeps_output,
                                  const std::optional<SequencesShape>& sequences) {
  Sequences counted;
  if (sequences) {
    require(program.micro_batches <= sequences->groups, "count: needs no more micro-batches than the ", sequences->groups,
            " groups of sequences, got ", program.micro_batches);
    for (int first = 0; first < sequences->groups; first += program.micro_batches) {
      const Sequences begun = groups_from(std::min(first, sequences->groups - program.micro_batches), program, shape, *sequences, 0);
      run(program, shape, keeps_output, &begun);
    }
    counted = groups_from(0, program, shape, *sequences, sequences->length);
  }
  RunResult result = run(program, shape, keeps_output, sequences ? &counted : nullptr);
  std::vector<size_t> next(program.devices.size(), 0);
  for (const TraceEvent& event : result.trace.events) program.devices[event.device][next[event.device]++] = event.action;
  program.is_counted = true;
  return result;
}

std::vector<int64_t> CountingExecutor::peaks(const Program& program) const {
  std::vector<int64_t> peaks = peak_bytes(program);
  for (size_t device = 0; device < peaks.size(); ++device) peaks[device] = std::max(peaks[device], first_peaks_[device]);
  return peaks;
}

std::vector<int64_t> CountingExecutor::kept() const {
  std::vector<int64_t> kept;
  for (const auto& device : executor_->devices())
    kept.push_back(device->live_bytes() - (devices_.beside.empty() ? 0 : devices_.beside[kept.size()]));
  return kept;
}

std::vector<int64_t> CountingExecutor::budgets() const {
  std::vector<int64_t> budgets;
  for (const auto& device : devices_.counted) budgets.push_back(device->budget_bytes());
  return budgets;
}

std::string CountingExecutor::refusal(const Program& program, const BatchShape& shape, bool keeps_output,
                                      const std::optional<SequencesShape>& sequences) const {
  const auto budgets = this->budgets(), peaks = this->peaks(program);
  const auto violation = verify_budgets(executor_->layout().topology, program, budgets);
  if (!violation && std::ranges::equal(first_peaks_, budgets, std::ranges::less_equal())) return {};
  std::string text = violation ? violation->reason : "";
  try {
    Program again = program;
    CountingExecutor(graph_, executor_->layout(), devices_, options_, true).count(again, shape, keeps_output, sequences);
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  for (size_t i = 0; i < peaks.size(); ++i)
    if (peaks[i] > budgets[i])
      text += join("; ", devices_.counted[i]->name(), " needs ", peaks[i], " bytes in all and lacks ", peaks[i] - budgets[i]);
  return text;
}

}  // namespace sluice::parallel
