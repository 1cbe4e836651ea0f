#pragma once
#include <cstdint>
#include <filesystem>

namespace sluice {

/// Bytes that this process may still take under the memory limits of its control groups (version 1 or 2), all of its ancestors' included;
/// files that the system keeps in memory and can drop count as free. INT64_MAX where nothing limits it.
/// `membership` and `groups` are the system's own places; tests give others.
int64_t control_group_room_bytes(const std::filesystem::path& membership = "/proc/self/cgroup",
                                 const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace sluice
