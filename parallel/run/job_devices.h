#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/device_description.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// Which GPU of its host each CUDA device of a job is, by device: `numbers` are those of their names, `hosts` where they are. GPUs count
/// from the list's least number on every host. So "4x cuda" on two hosts is the GPUs 0 and 1 of both; on one host, and where a list
/// names those of each host ("cuda:0,cuda:1,cuda:0,cuda:1"), a name's number is the GPU's.
std::vector<int> gpus_of_hosts(const std::vector<int>& numbers, const std::vector<std::string>& hosts);

/// The devices of a job from a list as sluice::devices() takes it: its own, and for CUDA devices of other ranks stand-ins by the same names,
/// which know what GPU is there (Device::Options::elsewhere). So a rank needs, and touches, its own GPUs only. Devices of other kinds are
/// made on every rank. All ranks call it together with the same list; `group` is null for one process.
/// Errors  UsageError on all ranks when one lacks a GPU, or the ranks cannot have equally many devices.
std::vector<DevicePtr> devices_of_job(std::string_view list, const Device::Options& options, const DescribedOptions& described,
                                      Group* group);

}  // namespace sluice::parallel
