#include "core/machine_limits.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace sluice {
namespace {

// A loop that the compiler removed, or a unit that is a thousandfold off, lies far outside these bounds.
TEST(MachineLimits, ArithmeticLiesWithinWhatACoreCanDo) {
  const double flops = measured_peak_flops(1);
  EXPECT_GT(flops, 1e8);
  EXPECT_LT(flops, 2e12);
}

TEST(MachineLimits, BandwidthLiesWithinWhatMemoryCanDo) {
  const double bytes_per_second = measured_bandwidth();
  EXPECT_GT(bytes_per_second, 1e7);
  EXPECT_LT(bytes_per_second, 2e12);
}

/// How the two compare is no matter for a test: other programs slow down one of them.
TEST(MachineLimits, OfBf16LieWithinWhatACoreCanDo) {
  const double flops = measured_bf16_peak_flops(1);
  EXPECT_GT(flops, 1e7);
  EXPECT_LT(flops, 2e13);
}

TEST(MachineLimits, RefusesNoThreads) { EXPECT_THROW(measured_peak_flops(0), UsageError); }

}  // namespace
}  // namespace sluice
