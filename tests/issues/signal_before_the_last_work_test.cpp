// A signal that came between the look for one and the work behind the last save, which is to end at once, was only noted: the work went on.
#include <gtest/gtest.h>

#include <csignal>

#include "cli/signals.h"

namespace sluice::cli {
namespace {

TEST(ASignalBeforeTheLastWork, EndsTheProgramWhenThatWorkBegins) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        watch_signals();
        std::raise(SIGTERM);
        EXPECT_EQ(caught_signal(), SIGTERM);
        const EndAtOnce all_is_saved;
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace sluice::cli
