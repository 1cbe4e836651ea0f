// The naive kernels of bench/ladder against the shipped ones, on the emulated GPU.
#include <gtest/gtest.h>

#include "bench/gpu_timing.h"
#include "bench/ladder/rungs.h"
#include "bench/relative_difference.h"

namespace sluice::ladder {
namespace {

constexpr Size kSmall{.tokens = 37, .width = 41, .rows = 5, .classes = 67, .context = 19, .heads = 2, .head_width = 8};

class LadderTest : public ::testing::TestWithParam<DType> {};

TEST_P(LadderTest, ShippedKernelsComputeWhatNaiveOnesDo) {
  const DevicePtr device = make_device("cuda:0");
  for (const Rung& rung : rungs(device, GetParam(), kSmall)) {
    const auto shipped = rung.shipped(), naive = rung.naive();
    ASSERT_EQ(shipped.size(), naive.size()) << rung.kernel;
    EXPECT_LE(bench::relative_difference(shipped, naive), tolerance_of(GetParam())) << rung.kernel;
  }
}

TEST_P(LadderTest, FindsAWrongResult) {
  const DevicePtr device = make_device("cuda:0");
  const auto answer = rungs(device, GetParam(), kSmall).front().shipped();
  EXPECT_GT(bench::relative_difference(answer, {bench::noise(answer[0].shape(), GetParam(), device)}), tolerance_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LadderTest, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(GpuTiming, RepeatsABlockUntilTheShapeIsFull) {
  const DevicePtr device = make_device("cuda:0");
  const Tensor block = tensor_of({1, 2, 3}, {3}, DType::f32, device);
  EXPECT_EQ(bench::repeated(block, {2, 4}).to_vector(), (std::vector<double>{1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(bench::repeated(block, {2}).to_vector(), (std::vector<double>{1, 2}));
}

TEST(GpuTiming, TimesOnlyTheWork) {
  const DevicePtr device = make_device("cuda:0");
  int prepared = 0, worked = 0;
  EXPECT_GE(bench::gpu_seconds(
                *device, 4, [&] { ++prepared; }, [&] { ++worked; }),
            0);
  EXPECT_EQ(prepared, worked);
  EXPECT_GT(worked, 4);
}

}  // namespace
}  // namespace sluice::ladder
