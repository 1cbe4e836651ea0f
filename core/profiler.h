#pragma once
#include <string>

#include "core/device.h"

namespace sluice {

/// Names what the calling thread enqueues during its life in NVIDIA's profilers (an NVTX range); nothing on devices that are no GPU.
/// Threads  ranges of one thread nest.
class ProfilerRange {
 public:
  ProfilerRange(const Device& device, const char* name);
  ProfilerRange(const Device& device, const std::string& name) : ProfilerRange(device, name.c_str()) {}
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  bool is_open_;
};

}  // namespace sluice
