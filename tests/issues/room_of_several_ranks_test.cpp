// A rank whose stages have no parameters asked for room of 0 bytes, which systems refuse: the training over ranks did not start. And ranks that
// began together could reserve one file, and so the room of one of them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mutex>
#include <set>
#include <string>

#include "parallel/checkpoint.h"
#include "parallel/group/collectives.h"
#include "parallel/group/thread_group.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;

/// The files without a name in `folder` that this process has open.
std::set<ino_t> reserved_files(const fs::path& folder) {
  std::set<ino_t> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const std::string target = fs::read_symlink(entry.path(), ignored).string();
    struct stat about {};
    if (target.starts_with(folder.string()) && target.ends_with("(deleted)") && stat(entry.path().c_str(), &about) == 0)
      files.insert(about.st_ino);
  }
  return files;
}

TEST(RoomOfSeveralRanks, MayBeNothing) {
  const TemporaryFolder folder;
  const ReservedRoom nothing(folder.path(), 0);
}

TEST(RoomOfSeveralRanks, IsAFileOfItsOwnForEach) {
  constexpr int kRanks = 8, kTimes = 50;
  for (int time = 0; time < kTimes; ++time) {
    const TemporaryFolder folder;
    run_ranks(kRanks, [&](Group& group) {
      const ReservedRoom room(folder.path(), 4096);
      barrier(group);  // all have theirs
      if (group.is_root()) {
        EXPECT_EQ(reserved_files(folder.path()).size(), size_t{kRanks});
      }
      barrier(group);  // the root has counted
    });
    EXPECT_EQ(folder.files(), 0u);
  }
}

TEST(RoomOfSeveralRanks, LeavesNoFileOfAKilledProcess) {
  const TemporaryFolder folder;
  folder.write("reserve.tmp-aBcDeF", "");
  const OutputFolder output(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / "reserve.tmp-aBcDeF"));
}

}  // namespace
}  // namespace sluice::parallel
