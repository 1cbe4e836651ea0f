// How NCCL is loaded, by stand-ins of several versions, and what this build finds on this machine.
#include "core/cuda/nccl_library.h"

#include <gtest/gtest.h>

#include "core/cuda/nccl.h"
#include "tests/expect_error.h"

namespace sluice::nccl {
namespace {

/// The stand-in of one version.
Loaded loaded_stand_in(const std::string& name) { return load("libnccl_" + name + ".so", {SLUICE_STAND_INS}); }

TEST(NcclLibrary, IsTakenFromAFolderWithAllItsFunctions) {
  const Loaded found = loaded_stand_in("right");
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(found.version, "2.28.9");
  EXPECT_EQ(found.library.CommDestroy(nullptr), ncclInternalError);
}

TEST(NcclLibrary, OneThatIsTooOldIsRefusedWithItsVersionTheNeededOneAndTheCure) {
  const std::string reason = loaded_stand_in("old").missing;
  for (const char* words : {"is 2.28.3", "needs 2.28.9 or newer", "pip install nvidia-nccl-cu12", "LD_LIBRARY_PATH"})
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
}

TEST(NcclLibrary, OneThatIsKnownToHangIsTakenWithAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(loaded_stand_in("hanging").missing, "");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "sluice: warning: NCCL 2.29.2 can hang, which 2.29.3 fixes; install that or a newer one\n");
}

TEST(NcclLibrary, OneWithoutItsFunctionsIsRefused) {
  EXPECT_NE(loaded_stand_in("incomplete").missing.find("of version 2.28.9 lacks functions"), std::string::npos);
}

TEST(NcclLibrary, OneThatIsNotThereIsNamedWithThePlacesAndTheCure) {
  const std::string reason = loaded_stand_in("absent").missing;
  for (const std::string words : {"no usable libnccl_absent.so", SLUICE_STAND_INS, "install NCCL on every host"})
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
}

TEST(NcclLibrary, OfThisMachineIsUsableOrSaysWhyNot) {
  if (const std::string reason = unavailable_reason(); !reason.empty()) {
    EXPECT_EQ(library_version(), "");
    expect_error<UsageError>([] { new_unique_id(); }, {"nccl: ", reason});
    GTEST_SKIP() << reason;
  }
  EXPECT_FALSE(library_version().empty());
}

}  // namespace
}  // namespace sluice::nccl
