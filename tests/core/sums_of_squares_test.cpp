// A list of tensors gets the sums that each would get alone.
#include "core/ops/sums_of_squares.h"

#include "core/ops/copy.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// More than one launch takes, of every dtype: empty ones, tails, several chunks, some at addresses that allow no packs.
std::vector<Tensor> many(const DevicePtr& device) {
  std::vector<Tensor> xs;
  for (int i = 0; i < 400; ++i) {
    const int64_t elements = i == 7 ? 70001 : i == 200 ? 16384 : i * 3 % 23;
    const DType dtype = i % 11 == 10 ? DType::f64 : i % 5 == 4 ? DType::bf16 : DType::f32;
    xs.push_back(named_normal(join("x", i), elements, dtype, device, i % 2));
  }
  return xs;
}

void expect_sums_of_a_list(const DevicePtr& device) {
  const auto xs = many(device);
  const auto count = static_cast<int64_t>(xs.size());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(count - i);  // the first element is nobody's
  const Tensor sums = full({count + 1}, -1, DType::f64, device);
  sums_of_squares(xs, sums, places);
  const auto got = sums.to_vector();
  EXPECT_EQ(got[0], -1);
  for (int64_t i = 0; i < count; ++i) {
    double expected = 0;
    for (double value : xs[i].to_vector()) expected += value * value;
    EXPECT_NEAR(got[count - i], expected, 1e-12 * (1 + expected)) << "tensor " << i;
    if (i % 40 == 0 || i == 7) {
      EXPECT_EQ(got[count - i], sum_of_squares(xs[i]).item()) << "tensor " << i << " alone";
    }
  }
}

void expect_the_same_bits_at_any_address(const DevicePtr& device) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor aligned = named_normal("x", 9001, dtype, device).clone(), shifted = empty({9002}, dtype, device).slice(0, 1, 9002);
    copy(aligned, shifted);
    EXPECT_EQ(sum_of_squares(shifted).item(), sum_of_squares(aligned).item()) << name_of(dtype);
  }
}

/// As several devices make it that each have whole chunks of a tensor.
void expect_the_same_bits_in_parts(const DevicePtr& device) {
  const int64_t chunk = squares_chunk(device->backend()), elements = 3 * chunk + 77;
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = named_normal("x", elements, dtype, device).clone();
    const Tensor partial = full({4}, -1, DType::f64, device), sums = full({3}, -1, DType::f64, device);
    squares_of_chunks(x.slice(0, 2 * chunk, elements), partial.slice(0, 2, 4));
    squares_of_chunks(x.slice(0, 0, 2 * chunk), partial.slice(0, 0, 2));
    sum_of_chunks(partial, sums, 1);
    EXPECT_EQ(sums.to_vector(), (std::vector<double>{-1, sum_of_squares(x).item(), -1})) << name_of(dtype);
  }
  squares_of_chunks(zeros({0}, DType::f32, device), zeros({0}, DType::f64, device));
}

TEST(SumsOfSquares, HaveTheSameBitsWhenChunksAreSummedApart) { expect_the_same_bits_in_parts(default_device()); }

TEST(SumsOfSquares, RefusesPartsThatDoNotFit) {
  const Tensor x = zeros({32769}), sums = zeros({2}, DType::f64);
  expect_error<UsageError>([&] { squares_of_chunks(x, zeros({1}, DType::f64)); }, {"needs room f64 [2]", "got f64 [1]"});
  expect_error<UsageError>([&] { squares_of_chunks(x, zeros({2})); }, {"needs room f64 [2]", "got f32 [2]"});
  expect_error<UsageError>([&] { squares_of_chunks(zeros({3}, DType::i32), zeros({1}, DType::f64)); }, {"floating dtype"});
  expect_error<UsageError>([&] { sum_of_chunks(zeros({2}, DType::f64), sums, 2); }, {"a place in [0, 2), got 2"});
  expect_error<UsageError>([&] { sum_of_chunks(zeros({2}), sums, 0); }, {"needs f64 [N]"});
}

TEST(SumsOfSquares, OfAListAreThoseOfEachAlone) { expect_sums_of_a_list(default_device()); }

TEST(SumsOfSquares, HaveTheSameBitsAtAnyAddress) { expect_the_same_bits_at_any_address(default_device()); }

TEST(SumsOfSquares, RefusesAListThatDoesNotFit) {
  const Tensor sums = zeros({2}, DType::f64), x = zeros({3});
  sums_of_squares({}, sums, {});
  expect_error<UsageError>([&] { sums_of_squares({x}, sums, {}); }, {"a place for each of 1 tensors", "got 0"});
  expect_error<UsageError>([&] { sums_of_squares({x}, sums, {2}); }, {"places in [0, 2)", "got 2"});
  expect_error<UsageError>([&] { sums_of_squares({x}, zeros({2}), {0}); }, {"sums f64 [N]"});
  expect_error<UsageError>([&] { sums_of_squares({zeros({3}, DType::i32)}, sums, {0}); }, {"floating dtype"});
  expect_error<UsageError>([&] { sums_of_squares({zeros({3}, DType::f32, make_device("cpu:1"))}, sums, {0}); }, {"operands on one device"});
}

using CudaSumsOfSquares = CudaTest;

TEST_F(CudaSumsOfSquares, OfAListAreThoseOfEachAlone) { expect_sums_of_a_list(make_device("cuda:0")); }

TEST_F(CudaSumsOfSquares, HaveTheSameBitsWhenChunksAreSummedApart) { expect_the_same_bits_in_parts(make_device("cuda:0")); }

TEST_F(CudaSumsOfSquares, HaveTheSameBitsAtAnyAddress) { expect_the_same_bits_at_any_address(make_device("cuda:0")); }

}  // namespace
}  // namespace sluice
