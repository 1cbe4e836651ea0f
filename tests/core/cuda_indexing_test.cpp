#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/gather.h"
#include "core/ops/sort.h"
#include "core/random.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

struct CudaIndexing : CudaTest {
  static Tensor normal(const Shape& shape, uint64_t key) {
    Tensor x = empty(shape);
    fill_normal(x, 0, 1, key);
    return x;
  }
  static Tensor places(const Shape& shape, double below) {
    Tensor x = empty(shape);
    fill_uniform(x, 0, below, 3);
    return cast(x, DType::i64);
  }
  /// The same sums, bit for bit, on the host and twice on the GPU.
  template <class Op>
  static void expect_one_order(const Op& op, const Tensor& x, const Tensor& index, const Tensor& source) {
    const auto gpu = make_device("cuda:0");
    const std::vector<double> expected = op(x, index, source).to_vector();
    for (int time = 0; time < 2; ++time) EXPECT_EQ(op(x.to(gpu), index.to(gpu), source.to(gpu)).to_vector(), expected);
  }
};

TEST_F(CudaIndexing, AddsEqualIndicesInTheOrderOfTheCpu) {
  const Tensor wide = normal({3, 5, 70}, 1);
  for (int axis : {0, 1, 2}) {
    const auto by_element = [axis](const Tensor& x, const Tensor& index, const Tensor& source) {
      return scatter_add(x, axis, index, source);
    };
    const auto by_slice = [axis](const Tensor& x, const Tensor& index, const Tensor& source) { return index_add(x, axis, index, source); };
    const Tensor source = normal(wide.shape().with(axis, 700), 2);
    const auto extent = static_cast<double>(wide.dim(axis));
    expect_one_order(by_element, wide, places(source.shape(), extent), source);
    expect_one_order(by_slice, wide, places({700}, extent), source);
  }
}

TEST_F(CudaIndexing, SortsAsTheCpuDoes) {
  const auto gpu = make_device("cuda:0");
  const Tensor x = places({3, 6000}, 100);
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    for (bool descending : {false, true}) {
      const Sorted here = sort(cast(x, dtype), -1, descending), there = sort(cast(x, dtype).to(gpu), -1, descending);
      EXPECT_EQ(there.values.to_vector(), here.values.to_vector()) << name_of(dtype);
      EXPECT_EQ(there.indices.to_vector(), here.indices.to_vector()) << name_of(dtype);
    }
}

/// A fault keeps 32 bits of the number.
TEST_F(CudaIndexing, TellsOfNumbersOf64BitsThatTheyAreMoreThanTheirLowHalf) {
  const auto gpu = make_device("cuda:0");
  const Tensor wide = tensor_of({0, 4294967297, 2}, {3}, DType::i64);  // 2^32 + 1
  gather(normal({3}, 1).to(gpu), 0, wide.to(gpu));
  expect_error<UsageError>([&] { gpu->synchronize(); }, {"in [0, 3), got a number of 64 bits whose low half is 1 at position 1"});
}

TEST_F(CudaIndexing, TellsOfEveryKindOfFault) {
  const auto gpu = make_device("cuda:0");
  gather(normal({3}, 1).to(gpu), 0, tensor_of({0, 7}, {2}, DType::i64).to(gpu));
  cross_entropy(normal({2, 4}, 1).to(gpu), tensor_of({9, 0}, {2}, DType::i64).to(gpu));
  expect_error<UsageError>([&] { gpu->synchronize(); },
                           {"cross_entropy: needs targets", "in [0, 4), got 9 at row 0", "; indexing: needs indices in [0, 3), got 7"});
  EXPECT_NO_THROW(gpu->synchronize());
}

/// Of two ops whose tensors differ, the first bad position may be one's and the last bad number the other's.
TEST_F(CudaIndexing, TellsTheRangeOfTheTensorThatTheBadIndexWasFor) {
  const auto gpu = make_device("cuda:0");
  const Tensor small = normal({3}, 1).to(gpu), large = normal({100}, 1).to(gpu);
  const auto take = [&](const Tensor& x, const std::vector<double>& index) {
    gather(x, 0, tensor_of(index, {static_cast<int64_t>(index.size())}, DType::i64).to(gpu));
  };
  take(small, {7});
  take(large, {0, 200});
  expect_error<UsageError>([&] { gpu->synchronize(); }, {"needs indices in [0, 3), got 7 at position 0"});
  take(large, {0, 200});
  take(small, {7});
  expect_error<UsageError>([&] { gpu->synchronize(); }, {"needs indices in [0, 3), got 7 at position 0"});
}

}  // namespace
}  // namespace sluice
