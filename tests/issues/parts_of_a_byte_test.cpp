// A budget of half a byte became 0, which means unlimited.
#include <gtest/gtest.h>

#include "cli/byte_size.h"
#include "cli/config.h"
#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::cli {
namespace {

TEST(PartsOfAByte, AreNoSize) {
  for (const char* size : {"0.5", "0.9B", "0.0000000001 GiB", ".5"}) {
    EXPECT_FALSE(parse_bytes(size).has_value()) << size;
    Settings settings;
    expect_error<UsageError>([&] { settings.set(std::string("pipeline.memory=") + size); }, {"pipeline.memory", size});
  }
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("0.5KiB"), 512);
}

}  // namespace
}  // namespace sluice::cli
