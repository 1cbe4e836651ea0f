// Devices without a budget were begun whatever they needed: the memory of the machine, or of the container, was compared with nothing.
#include <gtest/gtest.h>

#include "core/control_group.h"
#include "core/machine_limits.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

TEST(TheRoomOfAControlGroup, IsTheLeastOfItsAncestorsAndFilesThatCanBeDroppedAreFree) {
  const TemporaryFolder folder;
  const auto membership = folder.write("membership", "0::/batch/job\n");
  folder.write("groups/batch/memory.max", "1000000\n");
  folder.write("groups/batch/memory.current", "600000\n");
  folder.write("groups/batch/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  folder.write("groups/batch/job/memory.max", "max\n");
  folder.write("groups/batch/job/memory.current", "5000\n");
  EXPECT_EQ(control_group_room_bytes(membership, folder.path() / "groups"), 500000);
  folder.write("groups/batch/job/memory.max", "7000\n");
  EXPECT_EQ(control_group_room_bytes(membership, folder.path() / "groups"), 2000);
  folder.write("groups/batch/job/memory.current", "8000\n");
  EXPECT_EQ(control_group_room_bytes(membership, folder.path() / "groups"), 0);
}

TEST(TheRoomOfAControlGroup, IsReadInTheFirstVersionToo) {
  const TemporaryFolder folder;
  const auto membership = folder.write("membership", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n1:pids:/\n0::/\n");
  folder.write("groups/memory/memory.limit_in_bytes", "4000\n");  // of a container that does not see its own path
  folder.write("groups/memory/memory.usage_in_bytes", "1500\n");
  folder.write("groups/memory/memory.stat", "cache 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(control_group_room_bytes(membership, folder.path() / "groups"), 3000);
}

TEST(TheRoomOfAControlGroup, IsUnlimitedWhereNothingSaysSo) {
  const TemporaryFolder folder;
  EXPECT_EQ(control_group_room_bytes(folder.path() / "nothing", folder.path()), INT64_MAX);
  EXPECT_EQ(control_group_room_bytes(folder.write("membership", "no colons\n\n0::/a\n"), folder.path()), INT64_MAX);
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace sluice
