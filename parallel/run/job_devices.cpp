#include "parallel/run/job_devices.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/cuda/cuda.h"
#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"
#include "parallel/run/agreement.h"
#include "parallel/run/device_ranks.h"

namespace sluice::parallel {

namespace {

void write(PacketWriter& packet, const GpuDescription& gpu) {
  packet << gpu.name << gpu.compute_capability << gpu.multiprocessors << gpu.memory_bytes << gpu.free_bytes << gpu.driver_version
         << gpu.clock_hz << gpu.bytes_per_second;
}

GpuDescription read_gpu(PacketReader& packet) {
  GpuDescription gpu;
  packet >> gpu.name >> gpu.compute_capability >> gpu.multiprocessors >> gpu.memory_bytes >> gpu.free_bytes >> gpu.driver_version >>
      gpu.clock_hz >> gpu.bytes_per_second;
  return gpu;
}

/// The devices of one job on one of its ranks.
class JobDevices {
 public:
  JobDevices(std::vector<DeviceName> names, const Device::Options& options, const DescribedOptions& described, Group& group)
      : names_(std::move(names)),
        options_(options),
        described_(described),
        group_(group),
        ranks_(static_cast<int>(names_.size()), group),
        devices_(names_.size()) {}

  std::vector<DevicePtr> make() {
    place();
    together(&group_, [&] { make_own(); });
    make_others();
    return devices_;
  }

 private:
  void place() {
    const auto host_of_rank = host_names(group_);
    std::vector<int> numbers;
    for (int device = 0; device < ranks_.devices(); ++device) {
      numbers.push_back(names_[device].index);
      hosts_.push_back(host_of_rank[ranks_.of(device)]);
    }
    gpus_ = gpus_of_hosts(numbers, hosts_);
  }

  void make_own() {
    for (int device = 0; device < ranks_.devices(); ++device) {
      if (!ranks_.is_here(device)) continue;
      const DeviceName& name = names_[device];
      const int there = cuda_device_count();
      require(there == 0 || gpus_[device] < there, "pipeline.devices: needs ", name.kind, ":", name.index, " to be GPU ", gpus_[device],
              " of ", hosts_[device], ", where this rank sees ", there, "; list as many devices as the hosts have GPUs, or where the ",
              "launcher gives each rank a GPU of its own (--gpus-per-task), cuda:0 for each rank");
      Device::Options options = options_;
      options.host = described_.host_of(device);
      options.gpu = gpus_[device];
      devices_[device] = make_device(name, options, described_);
    }
  }

  /// Each rank tells what its GPUs are.
  void make_others() {
    PacketWriter mine;
    for (int device = 0; device < ranks_.devices(); ++device)
      if (ranks_.is_here(device)) write(mine, describe_gpu(*devices_[device]));
    PacketWriter all;
    for (const std::string& of_rank : gather(group_, mine.take())) all << of_rank;
    const std::string told = broadcast(group_, all.take());
    PacketReader ranks(told);
    for (int rank = 0; rank < ranks_.ranks(); ++rank) {
      const auto of_rank = ranks.read<std::string>();
      PacketReader packet(of_rank);
      for (int i = 0; i < ranks_.per_rank(); ++i) make_stand_in(rank * ranks_.per_rank() + i, read_gpu(packet));
    }
  }

  void make_stand_in(int device, GpuDescription gpu) {
    if (devices_[device]) return;
    Device::Options options = options_;
    options.host = described_.host_of(device);
    options.elsewhere = std::make_shared<const GpuDescription>(std::move(gpu));
    devices_[device] = make_device(names_[device], options, described_);
  }

  const std::vector<DeviceName> names_;
  const Device::Options& options_;
  const DescribedOptions& described_;
  Group& group_;
  const DeviceRanks ranks_;
  std::vector<std::string> hosts_;  // by device
  std::vector<int> gpus_;           // by device
  std::vector<DevicePtr> devices_;
};

}  // namespace

std::vector<int> gpus_of_hosts(const std::vector<int>& numbers, const std::vector<std::string>& hosts) {
  std::map<std::string, int> least;  // by host
  for (size_t device = 0; device < numbers.size(); ++device) {
    const auto [known, is_new] = least.try_emplace(hosts[device], numbers[device]);
    if (!is_new) known->second = std::min(known->second, numbers[device]);
  }
  const int first = std::ranges::min(numbers);
  std::vector<int> gpus;
  for (size_t device = 0; device < numbers.size(); ++device) gpus.push_back(numbers[device] - least.at(hosts[device]) + first);
  return gpus;
}

std::vector<DevicePtr> devices_of_job(std::string_view list, const Device::Options& options, const DescribedOptions& described,
                                      Group* group) {
  auto names = device_names(list);
  const bool has_gpus = std::ranges::all_of(names, [](const DeviceName& name) { return name.kind == "cuda"; });
  if (!group || group->size() == 1 || !has_gpus) return devices(list, options, described);
  on_root(group, [&] { DeviceRanks(static_cast<int>(names.size()), *group); });  // an error that all throw
  return JobDevices(std::move(names), options, described, *group).make();
}

}  // namespace sluice::parallel
