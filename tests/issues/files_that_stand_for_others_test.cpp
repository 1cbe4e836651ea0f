#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/file/file.h"
#include "tests/temporary_folder.h"

/// Files that are written at once, by a name and a rename, replaced links, pipes and devices: as root, /dev/null with a file.
namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(FilesThatStandForOthers, LinksStayAndWhatIsBehindThemIsWritten) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "disk");
  const fs::path real = folder.path() / "disk" / "real", link = folder.path() / "link", broken = folder.path() / "broken";
  folder.write("disk/real", "old");
  fs::create_symlink("disk/real", link);
  fs::create_symlink("disk/new", broken);
  write_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(real), "new");
  write_atomically(broken, "first");
  EXPECT_TRUE(fs::is_symlink(broken));
  EXPECT_EQ(read_file(folder.path() / "disk" / "new"), "first");
}

TEST(FilesThatStandForOthers, PipesAreWrittenInto) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string arrived;
  std::thread reader([&] { std::getline(std::ifstream(pipe), arrived); });
  write_atomically(pipe, "through");
  reader.join();
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(arrived, "through");
}

}  // namespace
}  // namespace sluice
