#include "parallel/profile.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "build_config.h"
#include "core/cache_folder.h"
#include "core/cuda/cuda.h"
#include "core/machine_limits.h"
#include "parallel/node_count.h"
#include "parallel/node_run.h"
#include "parallel/node_times_cache.h"
#include "parallel/worker.h"

namespace sluice::parallel {

namespace {

using Part = NodeRun::Part;

double median_of(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The first samples of a batch for every micro-batch.
Batch repeated(const Batch& batch, int64_t samples, int micro_batches) {
  return {samples * micro_batches, [&batch](const std::string& input, int64_t, int64_t count) { return batch.load(input, 0, count); }};
}

RunContext repeated_context(const Batch& batch, int64_t samples, int micro_batches) {
  RunContext context;
  context.batch = &batch;
  for (int m = 0; m <= micro_batches; ++m) context.first_sample.push_back(samples * m);
  context.loss_scale = 1 / static_cast<double>(samples * micro_batches);
  return context;
}

/// Lets all devices begin each pass of a series together, and ends the series for all of them when its time is over.
class Pace {
 public:
  Pace(ptrdiff_t devices, double seconds) : limit_(seconds), barrier_(devices, Arrived{this}) {}
  /// Whether pass number `pass` is to run: the same answer on all devices.
  bool goes_on(int pass, int least) {
    barrier_.arrive_and_wait();
    return pass < least || !is_over_;
  }
  /// For a device that failed: the others go on without it.
  void leave() { barrier_.arrive_and_drop(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Arrived {
    Pace* pace;
    void operator()() const noexcept { pace->note_time(); }
  };
  void note_time() {
    if (!began_) began_ = Clock::now();
    is_over_ = std::chrono::duration<double>(Clock::now() - *began_).count() > limit_;
  }

  const double limit_;
  std::optional<Clock::time_point> began_;
  bool is_over_ = false;
  std::barrier<Arrived> barrier_;
};

/// The measurement of one graph.
class Profile {
 public:
  Profile(const layers::Graph& graph, const Batch& batch, int64_t samples, Precision precision, const Optimizer& optimizer,
          const ProfileOptions& options)
      : graph_(graph),
        samples_(samples),
        precision_(precision),
        optimizer_(optimizer),
        options_(options),
        micro_batches_(2 * options.repetitions + 1),
        batch_(repeated(batch, samples, micro_batches_)),
        context_(repeated_context(batch_, samples, micro_batches_)) {}

  /// Bytes that one device needs: the same run on a device that only counts.
  int64_t peak_bytes(const Device& device) const {
    const auto counting = std::make_shared<Device>(DeviceKind::meta, device.index(), Device::Options{.stands_for = device.backend()});
    const Batch on_meta{batch_.samples, [&](const std::string& input, int64_t first, int64_t count) {
                          const Tensor loaded = batch_.load(input, first, count);
                          return empty(loaded.shape(), loaded.dtype(), counting);
                        }};
    RunContext context = context_;
    context.batch = &on_meta;
    NodeRun run(graph_, context, counting, stage_options(false));
    run.forward(0);
    run.backward(0);
    run.forward(1);
    run.input_gradient(1);
    run.weight_gradient(1);
    run.step(optimizer_);
    return counting->peak_bytes();
  }

  /// All devices at the same time, each pass begun together. Returns samples[device].
  std::vector<std::vector<NodeRun::Sample>> run(const std::vector<DevicePtr>& devices) const {
    std::vector<std::vector<NodeRun::Sample>> samples(devices.size());
    std::vector<std::exception_ptr> failures(devices.size());
    const auto count = static_cast<ptrdiff_t>(devices.size());
    Pace plain(count, options_.seconds), rematerialized(count, options_.seconds), whole(count, options_.seconds);
    std::vector<std::unique_ptr<Worker>> workers;
    for (size_t i = 0; i < devices.size(); ++i) {
      workers.push_back(std::make_unique<Worker>());
      workers[i]->submit([&, i] {
        try {
          run_alternating(devices[i], NodeRun::Cut::nodes, plain, samples[i]);
          run_rematerialized(devices[i], rematerialized, samples[i]);
          run_alternating(devices[i], NodeRun::Cut::whole, whole, samples[i]);
        } catch (...) {
          failures[i] = std::current_exception();
          for (Pace* pace : {&plain, &rematerialized, &whole}) pace->leave();
        }
      });
    }
    for (auto& worker : workers) worker->wait();
    for (const auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return samples;
  }

 private:
  StageOptions stage_options(bool rematerialize) const {
    StageOptions options;
    options.rematerialize.assign(graph_.nodes().size(), rematerialize);
    options.seed = options_.seed;
    options.optimizer_states = optimizer_.state_names().size();
    options.precision = precision_;
    options.averages = optimizer_.ema > 0;
    return options;
  }

  /// Whole and split backwards in turn. The first micro-batch warms up.
  void run_alternating(const DevicePtr& device, NodeRun::Cut cut, Pace& pace, std::vector<NodeRun::Sample>& samples) const {
    constexpr int kLeast = 3, kStepEvery = 4;  // seldom: a step leaves other things in the caches than a micro-batch does
    NodeRun run(graph_, context_, device, stage_options(false), cut);
    for (int m = 0; m < micro_batches_ && pace.goes_on(m, kLeast); ++m) {
      run.forward(m);
      if (m % 2 == 0) {
        run.backward(m);
      } else {
        run.input_gradient(m);
        run.weight_gradient(m);
      }
      append(samples, run, m > 0);
      if (cut == NodeRun::Cut::whole && m % kStepEvery == kStepEvery - 1) take_step(run, samples);
    }
    if (cut == NodeRun::Cut::whole) take_step(run, samples);
  }

  void run_rematerialized(const DevicePtr& device, Pace& pace, std::vector<NodeRun::Sample>& samples) const {
    constexpr int kLeast = 2;
    NodeRun run(graph_, context_, device, stage_options(true));
    for (int m = 0; m <= options_.repetitions && pace.goes_on(m, kLeast); ++m) {
      run.forward(m);
      run.take_samples();
      run.recompute(m);
      append(samples, run, m > 0);
      run.backward(m);
      run.take_samples();
    }
  }

  void take_step(NodeRun& run, std::vector<NodeRun::Sample>& samples) const {
    run.step(optimizer_);
    append(samples, run, true);
  }

  static void append(std::vector<NodeRun::Sample>& samples, NodeRun& run, bool counts) {
    const auto taken = run.take_samples();
    if (counts) samples.insert(samples.end(), taken.begin(), taken.end());
  }

  const layers::Graph& graph_;
  int64_t samples_;
  Precision precision_;
  const Optimizer& optimizer_;
  ProfileOptions options_;
  int micro_batches_;
  Batch batch_;
  RunContext context_;
};

/// Medians by node, scaled to what all nodes take as one stage; the step's time is shared out by the parameters that a node owns.
std::vector<NodeTimes> medians(const std::vector<std::vector<NodeRun::Sample>>& samples, const std::vector<NodeCount>& counts) {
  constexpr Part kParts[] = {&NodeTimes::forward, &NodeTimes::backward, &NodeTimes::input_gradient, &NodeTimes::weight_gradient,
                             &NodeTimes::recompute};
  std::vector<NodeTimes> times(counts.size());
  double elements = 0;
  for (const auto& count : counts) elements += static_cast<double>(count.owned_elements);
  const auto values_of = [&](int node, Part part) {
    std::vector<double> values;
    for (const auto& device : samples)
      for (const auto& sample : device)
        if (sample.node == node && sample.part == part) values.push_back(sample.seconds);
    return values;
  };
  auto steps = values_of(-1, &NodeTimes::step);
  const double step = median_of(steps);
  for (size_t node = 0; node < counts.size(); ++node) {
    for (const Part part : kParts) {
      auto values = values_of(static_cast<int>(node), part);
      times[node].*part = median_of(values);
    }
    if (elements > 0) times[node].step = step * static_cast<double>(counts[node].owned_elements) / elements;
  }
  const auto scale = [&](Part part, double factor) {
    for (auto& node : times) node.*part *= factor;
  };
  for (const Part part : kParts) {
    auto whole = values_of(-1, part);
    if (whole.empty()) continue;  // recomputation, which is scaled like forward
    double sum = 0;
    for (const auto& node : times) sum += node.*part;
    const double factor = sum > 0 ? median_of(whole) / sum : 1;
    scale(part, factor);
    if (part == &NodeTimes::forward) scale(&NodeTimes::recompute, factor);
  }
  return times;
}

/// By work: the mean over the nodes that do it.
std::map<std::string, NodeTimes> means_by_work(const std::vector<NodeTimes>& times, const std::vector<std::string>& works) {
  constexpr Part kParts[] = {&NodeTimes::forward,         &NodeTimes::backward,  &NodeTimes::input_gradient,
                             &NodeTimes::weight_gradient, &NodeTimes::recompute, &NodeTimes::step};
  std::map<std::string, NodeTimes> means;
  std::map<std::string, int> nodes;
  for (const auto& work : works) ++nodes[work];
  for (size_t node = 0; node < times.size(); ++node)
    for (const Part part : kParts) means[works[node]].*part += times[node].*part / nodes[works[node]];
  return means;
}

/// Which build this is: its version, and the size and time of the program's file.
std::string build_name() {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return join(build::version, ' ', std::filesystem::file_size(program, unknown), ' ',
              std::filesystem::last_write_time(program, unknown).time_since_epoch().count());
}

std::string circumstances(const Device& device, Precision precision, const Optimizer& optimizer, int devices) {
  const bool is_gpu = device.kind() == DeviceKind::cuda;
  return join(is_gpu ? describe_gpu(device.index()).name : processor_name(), ", ", device.options().threads, " threads, ", devices,
              " devices, tf32 ", device.options().allow_tf32, ", ", name_of(precision), ", ", optimizer.name(), ' ',
              optimizer.state_names().size() + (optimizer.ema > 0), ", build ", build_name());
}

int64_t free_bytes(const Device& device) {
  return device.kind() == DeviceKind::cuda ? describe_gpu(device.index()).free_bytes : available_memory_bytes();
}

/// As many devices of this kind as were asked for and the machine carries.
std::vector<DevicePtr> devices_at_once(const Device& device, int wanted, int64_t bytes) {
  const int64_t fitting = free_bytes(device) / std::max<int64_t>(1, bytes);
  require<ResourceError>(fitting >= 1, "profile: needs ", bytes, " bytes to run the whole model on ", device.name(), ", there are ",
                         free_bytes(device), "; plan with counted costs, or with more micro-batches");
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int carried = device.kind() == DeviceKind::cuda ? 1 : std::max(1, cores / device.options().threads);
  const int count = static_cast<int>(std::min<int64_t>(std::min(wanted, carried), fitting));
  Device::Options options = device.options();
  options.budget_bytes = kUnlimited;
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(std::make_shared<Device>(device.kind(), device.kind() == DeviceKind::cuda ? device.index() : i, options));
  return devices;
}

}  // namespace

std::vector<NodeTimes> counted_nodes(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision,
                                     const Optimizer& optimizer, DeviceKind backend) {
  const auto device = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.speed = speed, .stands_for = backend});
  std::vector<NodeTimes> times;
  for (const auto& count : count_nodes(graph, samples, device, precision, optimizer)) times.push_back(count.times);
  return times;
}

std::vector<NodeTimes> profile_nodes(const layers::Graph& graph, const Batch& batch, int64_t samples, const DevicePtr& device,
                                     Precision precision, const Optimizer& optimizer, const ProfileOptions& options) {
  require(device->kind() != DeviceKind::meta, "profile: needs a cpu or cuda device, got ", device->name(), ", which only counts");
  require(samples >= 1 && samples <= batch.samples, "profile: needs from 1 to the ", batch.samples, " samples of the batch, got ", samples);
  require(options.repetitions >= 1 && options.devices >= 1, "profile: needs repetitions and devices >= 1, got ", options.repetitions,
          " and ", options.devices);
  const auto counting = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = device->backend()});
  const auto counts = count_nodes(graph, samples, counting, precision, optimizer);
  NodeTimesCache cache(options.cache);
  const std::string prefix = circumstances(*device, precision, optimizer, options.devices);
  std::vector<std::string> works;
  std::vector<NodeTimes> times;
  for (const auto& count : counts) {
    works.push_back(prefix + count.work);
    if (const auto known = cache.find(works.back())) times.push_back(*known);
  }
  if (times.size() == counts.size()) return times;

  const Profile profile(graph, batch, samples, precision, optimizer, options);
  const auto devices = devices_at_once(*device, options.devices, profile.peak_bytes(*device));
  const auto measured = means_by_work(medians(profile.run(devices), counts), works);
  cache.keep(measured);
  times.clear();
  for (const auto& work : works) times.push_back(measured.at(work));
  return times;
}

std::filesystem::path profile_cache_file() {
  const auto folder = user_cache_folder();
  return folder.empty() ? folder : folder / "node-times.json";
}

}  // namespace sluice::parallel
