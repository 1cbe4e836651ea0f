#include "core/cuda/attention_slices.h"

#include <gtest/gtest.h>

#include "core/ops/attention.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(AttentionSlices, AreAsLargeAsTheWorkspaceMayBe) {
  const auto expect = [](const AttentionSlices& found, const AttentionSlices& wanted, const char* what) {
    EXPECT_EQ(found.samples, wanted.samples) << what;
    EXPECT_EQ(found.heads, wanted.heads) << what;
    EXPECT_EQ(found.workspace_bytes, wanted.workspace_bytes) << what;
  };
  expect(attention_slices(32, 12, 1024, 1024), {4, 12, 97 * kMiB}, "GPT-2: 24 MiB a sample, and 5 do not divide 32");
  expect(attention_slices(7, 12, 1024, 1024), {1, 12, 0}, "a sample fits into the device's workspace");
  expect(attention_slices(4, 8, 64, 64), {4, 8, 0}, "all");
  expect(attention_slices(2, 16, 4096, 4096), {1, 4, 129 * kMiB}, "heads of 32 MiB");
  expect(attention_slices(1, 6, 4096, 4096), {1, 3, 97 * kMiB}, "4 do not divide 6");
  expect(attention_slices(1, 128, 16384, 16384), {1, 1, 0}, "one head is too large: own kernels");
  expect(attention_slices(0, 2, 5, 5), {1, 2, 0}, "no samples");
}

/// On any GPU, so that plans are the same with cuDNN and without.
TEST(AttentionSlices, HaveTheirRoomCountedInBackwardOfWhatCudnnMayServe) {
  const auto peak = [](DType dtype, int64_t key_heads) {
    const auto device = make_device("meta:0", {.stands_for = DeviceKind::cuda});
    const Tensor q = empty({32, 1024, 12, 64}, dtype, device), k = empty({32, 1024, key_heads, 64}, dtype, device);
    const AttentionResult result{empty_like(q), empty({32, 12, 1024}, DType::f32, device)};
    const Tensor dq = empty_like(q), dk = empty_like(k), dv = empty_like(k);
    device->reset_peak();
    const int64_t before = device->live_bytes();
    attention_backward(q, k, k, result, q, {.causal = true}, dq, dk, dv);
    return device->peak_bytes() - before;
  };
  constexpr int64_t kSums = 32 * 12 * 1024 * 4;
  EXPECT_EQ(peak(DType::bf16, 12), kSums + 97 * kMiB);
  EXPECT_EQ(peak(DType::bf16, 6), kSums) << "grouped heads are ours";
  EXPECT_EQ(peak(DType::f32, 12), kSums);
}

}  // namespace
}  // namespace sluice
