#include "core/ops/copy.h"
#include "core/ops/gather.h"
#include "core/ops/sort.h"
#include "core/random.h"
#include "tests/core/cuda_fixture.h"

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

}  // namespace
}  // namespace sluice
