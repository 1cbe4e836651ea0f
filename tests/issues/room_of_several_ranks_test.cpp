// A rank whose stages have no parameters asked for room of 0 bytes, which systems refuse: the training over ranks did not start.
#include <gtest/gtest.h>

#include "parallel/checkpoint.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;

TEST(RoomOfSeveralRanks, MayBeNothing) {
  const TemporaryFolder folder;
  const ReservedRoom nothing(folder.path() / "reserve.tmp-0", 0);
}

TEST(RoomOfSeveralRanks, LeavesNoFileOfAKilledProcess) {
  const TemporaryFolder folder;
  folder.write("reserve.tmp-3", "");
  const OutputFolder output(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / "reserve.tmp-3"));
}

}  // namespace
}  // namespace sluice::parallel
