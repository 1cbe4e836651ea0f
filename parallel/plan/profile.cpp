#include "parallel/plan/profile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>

#include "build_config.h"
#include "core/cuda/cuda.h"
#include "core/file/cache_folder.h"
#include "core/file/hash.h"
#include "core/machine_limits.h"
#include "core/ops/concat.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/node_count.h"
#include "parallel/plan/node_times_cache.h"
#include "parallel/plan/step_times.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

namespace {

using TimeOfNode = double NodeTimes::*;

/// The first samples of a batch for every micro-batch. Whole micro-batches are loaded, one or several, or the begin of one.
Batch repeated(const Batch& batch, int64_t samples, int micro_batches) {
  return {samples * micro_batches, [batch, samples](const std::string& input, int64_t, int64_t count) {
            const Tensor one = batch.load(input, 0, std::min(count, samples));
            return count <= samples ? one : concat(std::vector<Tensor>(static_cast<size_t>(count / samples), one), 0);
          }};
}

/// A way to run the model that its actions are timed in.
struct Way {
  NamedSchedule schedule;
  bool by_node = false;  ///< each node a stage of its own: how long it takes; else each device one stage
  bool rematerializes = false;
};

/// What was seen of one way.
struct Samples {
  StepTimes times;
  int64_t peak_bytes = 0;  ///< of all devices
};

/// The measurement of one graph: pipelines over the devices, run by the executor, with the trace of every step.
class Profile {
 public:
  Profile(const layers::Graph& graph, const Batch& batch, int64_t samples, std::vector<DevicePtr> devices, Precision precision,
          const Optimizer& optimizer, const ProfileOptions& options, const std::vector<NodeCount>& counts)
      : graph_(graph),
        batch_(batch),
        samples_(samples),
        devices_(std::move(devices)),
        precision_(precision),
        optimizer_(optimizer),
        options_(options),
        counts_(counts),
        usual_micro_batches_(std::max(4, 2 * static_cast<int>(devices_.size()))) {
    std::vector<double> costs;
    for (const auto& count : counts) costs.push_back(count.times.forward + count.times.backward);
    blocks_ = partition_balanced(costs, static_cast<int>(devices_.size()));
  }

  /// Bytes that all devices need together.
  int64_t bytes_of(const Way& way, int micro_batches) const {
    const auto peaks = counted_peak_bytes(graph_, plan_of(way, micro_batches), optimizer_, samples_ * micro_batches);
    return std::accumulate(peaks.begin(), peaks.end(), int64_t{0});
  }
  /// Of the runs that hold most.
  int64_t bytes() const {
    using enum NamedSchedule;
    return std::max(bytes_of({one_f_one_b, true}, usual_micro_batches_), bytes_of({zb_h1, true}, usual_micro_batches_));
  }

  std::vector<NodeTimes> measure(int64_t free_bytes) const {
    using enum NamedSchedule;
    std::vector<NodeTimes> times(counts_.size());
    run({one_f_one_b}, usual_micro_batches_);  // a machine that idled is slow at first
    const Samples nodes = run({one_f_one_b, true}, usual_micro_batches_), split_nodes = run({zb_h1, true}, usual_micro_batches_);
    const Samples split = run({zb_h1}, usual_micro_batches_), again = run({one_f_one_b, false, true}, usual_micro_batches_);
    const Samples whole = run({one_f_one_b}, usual_micro_batches_);
    take(nodes, whole, &NodeTimes::forward, ActionKind::forward, times);
    take(nodes, whole, &NodeTimes::backward, ActionKind::backward, times);
    take(split_nodes, split, &NodeTimes::input_gradient, ActionKind::input_gradient, times);
    take(split_nodes, split, &NodeTimes::weight_gradient, ActionKind::weight_gradient, times);
    take(run({one_f_one_b, true, true}, usual_micro_batches_), again, &NodeTimes::recompute, ActionKind::recompute, times);
    share_step(whole.times.median_end(), times);
    note_crowding(whole, free_bytes, times);
    return times;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Plan plan_of(const Way& way, int micro_batches) const {
    Plan plan;
    plan.devices = devices_;
    const Partition nodes{std::vector<int>(counts_.size(), 1)};
    plan.partition = way.by_node ? SegmentedPartition(nodes, blocks_.sizes) : blocks_;
    plan.micro_batches = micro_batches;
    plan.schedule = way.schedule;
    plan.rematerialize.assign(counts_.size(), way.rematerializes);
    plan.precision = precision_;
    return plan;
  }

  /// Steps until every action was seen as often as asked for, or the time is over. The first one warms up.
  Samples run(const Way& way, int micro_batches) const {
    constexpr double kClip = 1e-6;  // the weights stay about where they are, whatever the learning rate
    Trainer trainer(graph_, plan_of(way, micro_batches), optimizer_, {.seed = options_.seed, .clip = kClip, .tuning = options_.tuning});
    const Batch batch = repeated(batch_, samples_, micro_batches);
    const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
    for (const auto& device : devices_) device->reset_peak();
    Samples samples;
    trainer.step(batch);
    for (int seen = 0; seen == 0 || (seen < options_.repetitions && Clock::now() < end); seen += micro_batches) {
      trainer.step(batch);
      samples.times.add(trainer.trace());
    }
    for (const auto& device : devices_) samples.peak_bytes += device->peak_bytes();
    return samples;
  }

  /// The medians of the nodes, scaled so that those of a device add up to what they take as one stage.
  void take(const Samples& nodes, const Samples& whole, TimeOfNode part, ActionKind kind, std::vector<NodeTimes>& times) const {
    for (int block = 0; block < blocks_.stage_count(); ++block) {
      double sum = 0;
      for (int node = blocks_.first_node(block); node < blocks_.end_node(block); ++node)
        sum += times[node].*part = nodes.times.median(node, kind);
      const double factor = sum > 0 ? whole.times.median(block, kind) / sum : 1;
      for (int node = blocks_.first_node(block); node < blocks_.end_node(block); ++node) times[node].*part *= factor;
    }
  }

  /// By the parameters that each node owns.
  void share_step(double seconds, std::vector<NodeTimes>& times) const {
    double elements = 0;
    for (const auto& count : counts_) elements += static_cast<double>(count.owned_elements);
    for (size_t node = 0; node < times.size() && elements > 0; ++node)
      times[node].step = seconds * static_cast<double>(counts_[node].owned_elements) / elements;
  }

  double seconds_of_micro_batch(const Samples& samples) const {
    double seconds = 0;
    for (int block = 0; block < blocks_.stage_count(); ++block)
      seconds += samples.times.median(block, ActionKind::forward) + samples.times.median(block, ActionKind::backward);
    return seconds;
  }

  /// How many micro-batches a crowded step has: as many as time and memory allow.
  int crowd(double seconds_of_one, int64_t free_bytes) const {
    constexpr int kMost = 32;
    constexpr double kSteps = 3;
    const double affordable = options_.seconds * static_cast<double>(devices_.size()) / (kSteps * std::max(1e-9, seconds_of_one));
    int number = static_cast<int>(std::min<double>(kMost, affordable));
    while (number > usual_micro_batches_ && bytes_of({NamedSchedule::gpipe}, number) > free_bytes) number /= 2;
    return number;
  }

  /// Compares with a step that keeps all of many micro-batches.
  void note_crowding(const Samples& whole, int64_t free_bytes, std::vector<NodeTimes>& times) const {
    const double usual = seconds_of_micro_batch(whole);
    const int number = crowd(usual, free_bytes);
    if (number <= usual_micro_batches_ || usual <= 0) return;
    const double crowding = std::max(0.0, seconds_of_micro_batch(run({NamedSchedule::gpipe}, number)) / usual - 1);
    for (NodeTimes& node : times) {
      node.crowding = crowding;
      node.crowding_bytes = static_cast<double>(whole.peak_bytes) / static_cast<double>(devices_.size());
    }
  }

  const layers::Graph& graph_;
  const Batch& batch_;
  const int64_t samples_;
  const std::vector<DevicePtr> devices_;
  const Precision precision_;
  const Optimizer& optimizer_;
  const ProfileOptions& options_;
  const std::vector<NodeCount>& counts_;
  const int usual_micro_batches_;
  Partition blocks_;
};

/// By work: the mean over the nodes that do it.
std::map<std::string, NodeTimes> means_by_work(const std::vector<NodeTimes>& times, const std::vector<std::string>& works) {
  std::map<std::string, NodeTimes> means;
  std::map<std::string, int> nodes;
  for (const auto& work : works) ++nodes[work];
  for (size_t node = 0; node < times.size(); ++node)
    for (const TimeOfNode part : kNodeTimes) means[works[node]].*part += times[node].*part / nodes[works[node]];
  return means;
}

/// How much more memory slows a model down is a fact of it all, which nodes of other models do not have.
void copy_crowding(const NodeTimes& from, NodeTimes& to) {
  to.crowding = from.crowding;
  to.crowding_bytes = from.crowding_bytes;
}

std::string hash_of_all(const std::vector<std::string>& works) {
  std::string all;
  for (const auto& work : works) all += work + "\n";
  return sluice::hash_of(all);
}

/// Which build this is: its version, and the size and time of the program's file.
std::string build_name() {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return join(build::version, ' ', std::filesystem::file_size(program, unknown), ' ',
              std::filesystem::last_write_time(program, unknown).time_since_epoch().count());
}

/// What computes, as far as times depend on it.
std::string hardware_name(const Device& device, Tuning tuning) {
  if (device.kind() != DeviceKind::cuda) return processor_name();
  const GpuDescription gpu = describe_gpu(device);
  return join(gpu.name, ", driver ", gpu.driver_version, ", ", gpu_libraries(), ", tuning of ", limits_of(tuning).candidates);
}

std::string circumstances(const Device& device, Precision precision, const Optimizer& optimizer, int devices, Tuning tuning) {
  std::string states;
  for (const std::string& state : optimizer.state_names()) states += ' ' + state;
  return join(hardware_name(device, tuning), ", ", device.options().threads, " threads, ", devices, " devices, tf32 ",
              device.options().allow_tf32, ", ", name_of(precision), ", ", optimizer.name(), states, optimizer.ema > 0 ? " ema" : "",
              ", build ", build_name());
}

int64_t free_bytes(const Device& device) {
  return device.kind() == DeviceKind::cuda ? describe_gpu(device.gpu()).free_bytes : available_memory_bytes();
}

/// As many devices of this kind as were asked for, as far as there are cores and nodes for them.
std::vector<DevicePtr> devices_at_work(const Device& device, int wanted, int nodes) {
  const bool is_gpu = device.kind() == DeviceKind::cuda;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int carried = is_gpu ? 1 : std::max(1, cores / device.options().threads);
  Device::Options options = device.options();
  options.budget_bytes = kUnlimited;
  std::vector<DevicePtr> devices;
  for (int i = 0; i < std::min({wanted, carried, nodes}); ++i)
    devices.push_back(std::make_shared<Device>(device.kind(), is_gpu ? device.index() : i, options));
  return devices;
}

}  // namespace

std::vector<NodeTimes> counted_nodes(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision,
                                     const Optimizer& optimizer, DeviceKind backend, SearchWatch* watch, int micro_batches) {
  const auto device = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.speed = speed, .stands_for = backend});
  std::vector<NodeTimes> times;
  for (const auto& count : count_nodes(graph, samples, device, precision, optimizer, watch)) {
    const double accumulation = count.accumulation * (micro_batches - 1) / micro_batches;
    times.push_back(count.times);
    times.back().backward += accumulation;
    times.back().weight_gradient += accumulation;
  }
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
  const std::string prefix = circumstances(*device, precision, optimizer, options.devices, options.tuning);
  std::vector<std::string> works;
  std::vector<NodeTimes> times;
  for (const auto& count : counts) {
    works.push_back(prefix + count.work);
    if (const auto known = cache.find(works.back())) times.push_back(*known);
  }
  const std::string model = prefix + "all of " + hash_of_all(works);
  if (const auto crowding = cache.find(model); crowding && times.size() == counts.size()) {
    for (NodeTimes& node : times) copy_crowding(*crowding, node);
    return times;
  }

  const Profile profile(graph, batch, samples, devices_at_work(*device, options.devices, static_cast<int>(counts.size())), precision,
                        optimizer, options, counts);
  const int64_t needed = profile.bytes(), there = free_bytes(*device);
  require<ResourceError>(needed <= there, "profile: needs ", needed, " bytes to train the whole model on devices like ", device->name(),
                         ", there are ", there, "; plan with counted costs, or with more micro-batches");
  const auto by_node = profile.measure(there);
  auto measured = means_by_work(by_node, works);
  copy_crowding(by_node.front(), measured[model]);
  cache.keep(measured);
  times.clear();
  for (const auto& work : works) times.push_back(measured.at(work));
  return times;
}

std::string profile_cache_file() {
  const auto folder = user_cache_folder();
  return folder.empty() ? "" : (folder / "node-times.json").string();
}

}  // namespace sluice::parallel
