#include "core/control_group.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace sluice {

namespace {

namespace fs = std::filesystem;

/// The names that one version of control groups gives to the same numbers.
struct Names {
  const char *limit, *used, *droppable;
};
constexpr Names kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kVersion2{"memory.max", "memory.current", "inactive_file"};

/// Nothing for a missing file, and for "max".
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

int64_t entry_of(const fs::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (int64_t number; in >> name >> number;)
    if (name == wanted) return number;
  return 0;
}

int64_t room_of(const fs::path& group, const Names& names) {
  const auto limit = number_in(group / names.limit), used = number_in(group / names.used);
  if (!limit || !used) return INT64_MAX;
  return std::max<int64_t>(0, *limit - *used + entry_of(group / "memory.stat", names.droppable));
}

/// The least room of a group and its ancestors. In a container the process may not see its own group under its path: then the root is it.
int64_t least_room(const fs::path& root, const fs::path& path, const Names& names) {
  int64_t room = room_of(root, names);
  fs::path group = root;
  for (const auto& part : path.relative_path()) room = std::min(room, room_of(group /= part, names));
  return room;
}

}  // namespace

int64_t control_group_room_bytes(const fs::path& membership, const fs::path& groups) {
  int64_t room = INT64_MAX;
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {  // "4:memory:/a/b" in version 1, "0::/a/b" in version 2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) room = std::min(room, least_room(groups, path, kVersion2));
    if (("," + controllers + ",").find(",memory,") != line.npos) room = std::min(room, least_room(groups / "memory", path, kVersion1));
  }
  return room;
}

}  // namespace sluice
