// Sums over lists of tensors have the bits of one addition after another, on every kind of device.
#include "core/ops/accumulate.h"

#include "core/ops/elementwise.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

void expect_the_bits_of_additions(const DevicePtr& device) {
  const auto one_by_one = named_pairs<Accumulation>(default_device()), together = named_pairs<Accumulation>(device);
  for (const auto& [sum, part] : one_by_one) add_into(sum, part);
  accumulate(together);
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].sum.to_vector(), one_by_one[i].sum.to_vector()) << "pair " << i;
    EXPECT_EQ(together[i].part.to_vector(), one_by_one[i].part.to_vector()) << "pair " << i;
  }
}

TEST(Accumulate, HasTheBitsOfAdditionsOneByOne) {
  expect_the_bits_of_additions(default_device());
  expect_the_bits_of_additions(make_device("cpu:0", {.threads = 3}));
}

TEST(Accumulate, IsOneKernelForAll) {
  const auto device = make_device("meta:0", {.tallies_kernels = true});
  std::vector<Accumulation> pairs;
  for (const int64_t elements : {3, 5}) pairs.push_back({empty({elements}, DType::f32, device), empty({elements}, DType::f32, device)});
  accumulate(pairs);
  accumulate({});
  const auto kernels = device->kernels();
  ASSERT_EQ(kernels.size(), 1u);
  const KernelTally& tally = kernels.at("add_into f32");
  EXPECT_EQ(tally.calls, 1);
  EXPECT_EQ(tally.cost.flops, 8);
  EXPECT_EQ(tally.cost.bytes_read, 2 * 8 * 4);
  EXPECT_EQ(tally.cost.bytes_written, 8 * 4);
}

TEST(Accumulate, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({3});
  expect_error<UsageError>([&] { accumulate({{x, zeros({4})}}); }, {"a part like its sum", "[4]"});
  expect_error<UsageError>([&] { accumulate({{x, zeros({3}, DType::f64)}}); }, {"a part like its sum"});
  expect_error<UsageError>([&] { accumulate({{x, zeros({6}).slice(0, 0, 6, 2)}}); }, {"both contiguous"});
  expect_error<UsageError>([&] { accumulate({{zeros({3}, DType::bf16), zeros({3}, DType::bf16)}}); }, {"f32 or f64"});
  expect_error<UsageError>([&] { accumulate({{x, zeros({3}, DType::f32, make_device("cpu:0"))}}); }, {"one device"});
}

using CudaAccumulate = CudaTest;

TEST_F(CudaAccumulate, HasTheBitsOfAdditionsOneByOne) { expect_the_bits_of_additions(make_device("cuda:0")); }

}  // namespace
}  // namespace sluice
