#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
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

/// A process that has written half of the file, says so, and waits for the end of `going_on` before it writes the rest.
pid_t writer_of(const fs::path& path, const int (&half)[2], const int (&going_on)[2]) {
  const pid_t writer = fork();
  if (writer != 0) return writer;
  close(going_on[1]);
  write_atomically(path, [&](const fs::path& temporary) {
    char byte = 0;
    write_file(temporary, "half");
    if (::write(half[1], &byte, 1) == 1 && ::read(going_on[0], &byte, 1) == 0) write_file(temporary, "all");
  });
  _exit(0);
}

/// They stayed for ever: a kill while a corpus was written left as many bytes in the cache each time.
TEST(TemporaryFiles, OfKilledWritersAreRemovedByAWriteAnHourLaterAndThoseOfOthersStay) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.html";
  const fs::path others[] = {folder.write("report.html.1-2.tmp.txt", "mine"), folder.write("report.html.old.tmp", "mine"),
                             folder.write("other.html.1-2.tmp", "of another")};
  int half[2], going_on[2];
  ASSERT_TRUE(pipe(half) == 0 && pipe(going_on) == 0);
  const pid_t killed = writer_of(path, half, going_on), alive = writer_of(path, half, going_on);
  char bytes[2];
  ASSERT_EQ(read(half[0], &bytes[0], 1) + read(half[0], &bytes[1], 1), 2);
  EXPECT_EQ(folder.files(), 5u);
  kill(killed, SIGKILL);
  waitpid(killed, nullptr, 0);
  write_atomically(path, "new");
  EXPECT_EQ(folder.files(), 6u);  // a machine may write it whose locks are not seen here
  for (const auto& entry : fs::directory_iterator(folder.path()))
    fs::last_write_time(entry.path(), fs::last_write_time(entry.path()) - std::chrono::hours(2));
  write_atomically(path, "new");
  EXPECT_EQ(folder.files(), 5u);  // the file itself, and that of the writer that is alive
  close(going_on[1]);
  waitpid(alive, nullptr, 0);
  EXPECT_EQ(read_file(path), "all");
  EXPECT_EQ(folder.files(), 4u);
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
  for (const int descriptor : {half[0], half[1], going_on[0]}) close(descriptor);
}

}  // namespace
}  // namespace sluice
