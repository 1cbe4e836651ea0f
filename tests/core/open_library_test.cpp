#include "core/cuda/open_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>

#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

constexpr const char* kUnknown = "libsluice_unknown_to_the_system.so.9";

/// The file of a library that this program is linked with.
std::filesystem::path some_library() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&XXH_versionNumber), &info);
  return info.dli_fname;
}

}  // namespace

TEST(OpenLibrary, FindsWhatTheSystemKnowsByItsNameAlone) {
  std::string reason = "old";
  EXPECT_NE(open_library("libc.so.6", {}, reason), nullptr);
  EXPECT_EQ(reason, "");
}

TEST(OpenLibrary, FindsInAFolderWhatTheSystemDoesNotKnow) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "site-packages" / "nvidia" / "cudnn" / "lib";
  std::filesystem::create_directories(place);
  std::filesystem::copy_file(some_library(), place / kUnknown);
  std::string reason;
  void* const library = open_library(kUnknown, {folder.path() / "nowhere", place}, reason);
  ASSERT_NE(library, nullptr) << reason;
  EXPECT_NE(dlsym(library, "XXH_versionNumber"), nullptr);
}

TEST(OpenLibrary, SkipsADamagedFileAndSaysWhatEachPlaceLacked) {
  const TemporaryFolder folder;
  folder.write(kUnknown, "no library");
  std::string reason;
  EXPECT_EQ(open_library(kUnknown, {folder.path(), folder.path() / "nowhere"}, reason), nullptr);
  for (const std::string& place :
       {std::string(kUnknown), (folder.path() / kUnknown).string(), (folder.path() / "nowhere" / kUnknown).string()})
    EXPECT_NE(reason.find(place + ":"), std::string::npos) << reason;
}
