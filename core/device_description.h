#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/precision.h"

namespace sluice {

/// A line from one device to another, one direction.
struct LinkDescription {
  std::string name;
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// A device that need not be there: what its maker says of it, from a TOML file such as core/devices/h200.toml.
struct DeviceDescription {
  std::string name;  ///< "NVIDIA H200 SXM"
  std::string file;
  DeviceKind backend = DeviceKind::cpu;  ///< whose kernels' scratch memory is counted
  int64_t memory_bytes = 0;
  double bytes_per_second = 0;                            ///< of the memory
  std::map<std::string, double> flops_per_second;         ///< by precision, as far as the file says
  std::map<std::string, double, std::less<>> efficiency;  ///< by op (DeviceSpeed::efficiency); empty where the file has no such table
  double launch_seconds = 0;                              ///< DeviceSpeed::launch_seconds; 0 where the file does not say
  LinkDescription link;                                   ///< to its neighbours
};

/// From the name of a description ("h200") or the path of a file (is_description_file).
/// Errors  UsageError naming the nearest name, or file and key that is missing, unknown or out of range.
DeviceDescription describe_device(std::string_view name_or_path);

/// From a name in core/devices/links.toml ("nvlink", "ethernet-10g", "wan"), or the path of a file with a table [link].
/// Errors  as describe_device.
LinkDescription describe_link(std::string_view name_or_path);

/// Whether a name stands for a file: it has a '/' or ends in ".toml".
bool is_description_file(std::string_view name);

/// Names that describe_device and describe_link take, sorted.
std::vector<std::string> described_devices();
std::vector<std::string> described_links();

/// Errors  UsageError naming file and key when the file does not say how fast the device is in this precision.
DeviceSpeed speed_of(const DeviceDescription& description, Precision precision);

/// What `devices` and `make_device` take from descriptions.
struct DescribedOptions {
  Precision precision = Precision::bf16;
  std::optional<LinkDescription> link{};       ///< instead of the devices' own
  int devices_of_host = 0;                     ///< the first so many are in host 0, and so on; 0: all are in one
  std::optional<LinkDescription> host_link{};  ///< between hosts, a device; none: as within a host

  /// The host of a device, by its place in the list.
  int host_of(int device) const { return devices_of_host > 0 ? device / devices_of_host : 0; }
};
/// As make_device and devices in core/device.h; devices with a description get their speed in a precision, and all get hosts (`devices` does
/// it) and links that were chosen.
DevicePtr make_device(const DeviceName& name, Device::Options options, const DescribedOptions& described);
std::vector<DevicePtr> devices(std::string_view list, const Device::Options& options, const DescribedOptions& described);

}  // namespace sluice
