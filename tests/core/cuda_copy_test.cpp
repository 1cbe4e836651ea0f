// Copies on a GPU and between devices: the same elements as on the CPU, for every dtype and view.
#include <cstring>

#include "core/ops/copy.h"
#include "tests/core/cuda_fixture.h"

namespace sluice {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8};

struct View {
  const char* name;
  Shape whole;
  Tensor (*of)(const Tensor& whole);
};
const View kViews[] = {
    {"whole packs", {4, 16}, [](const Tensor& x) { return x; }},
    {"a tail", {5, 7}, [](const Tensor& x) { return x; }},
    {"one element", {1}, [](const Tensor& x) { return x.reshape({}); }},
    {"nothing", {0, 3}, [](const Tensor& x) { return x; }},
    {"misaligned", {37}, [](const Tensor& x) { return x.slice(0, 1, 33); }},
    {"columns", {5, 9}, [](const Tensor& x) { return x.slice(1, 1, 8); }},
    {"columns of whole packs", {5, 64}, [](const Tensor& x) { return x.slice(1, 16, 48); }},
    {"columns of parts of packs", {5, 24}, [](const Tensor& x) { return x.slice(1, 4, 16); }},
    {"columns in pairs", {3, 3, 10}, [](const Tensor& x) { return x.slice(2, 2, 8).slice(1, 0, 2); }},
    {"more columns than threads", {70, 130}, [](const Tensor& x) { return x.slice(1, 1, 128); }},
    {"transposed by several tiles", {33, 70}, [](const Tensor& x) { return x.transpose(0, 1); }},
    {"a transposed part", {12, 40}, [](const Tensor& x) { return x.slice(0, 1, 11).slice(1, 3, 37).transpose(0, 1); }},
    {"heads before positions", {2, 5, 3, 4}, [](const Tensor& x) { return x.transpose(1, 2); }},
    {"no unit stride", {4, 3, 6}, [](const Tensor& x) { return x.slice(2, 1, 2).transpose(0, 1); }},
};

/// Fractions where the dtype has them, and nothing that an integer of 8 bits cannot hold.
Tensor counting(const Shape& shape, DType dtype, const DevicePtr& device) {
  std::vector<double> elements(shape.elements());
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i % 250) * (is_floating(dtype) ? 0.71 : 1);
  if (dtype == DType::f64 && !elements.empty()) elements[0] = 1 + 0x1p-8 + 0x1p-40;  // f32 would hold a tie of bf16
  return tensor_of(elements, shape, dtype, device);
}

using CudaCopy = CudaTest;

TEST_F(CudaCopy, CastsFromAndToEveryViewAsTheCpuDoes) {
  const auto gpu = make_device("cuda:0");
  for (const View& view : kViews)
    for (DType from : kDTypes)
      for (DType to : kDTypes) {
        const auto read = [&](const DevicePtr& device) {
          const Tensor source = view.of(counting(view.whole, from, device)), target = empty(source.shape(), to, device);
          copy(source, target);
          return target.to_vector();
        };
        const auto written = [&](const DevicePtr& device) {
          const Tensor whole = full(view.whole, 99, to, device), target = view.of(whole);
          copy(counting(target.shape(), from, device), target);
          return whole.to_vector();
        };
        EXPECT_EQ(read(gpu), read(default_device())) << view.name << ", from " << name_of(from) << " to " << name_of(to);
        EXPECT_EQ(written(gpu), written(default_device())) << "into " << view.name << ", from " << name_of(from) << " to " << name_of(to);
      }
}

/// Transfers go through pinned memory, four pieces of 8 MiB used in turn, which an upload may still use when a download begins.
TEST_F(CudaCopy, MovesWhatIsLongerThanThePinnedMemory) {
  const auto gpu = make_device("cuda:0");
  constexpr int64_t kPiece = int64_t{8} << 20;
  for (const int64_t bytes : {int64_t{64} << 10, (int64_t{64} << 10) + 1, kPiece, kPiece + 1, 4 * kPiece, 9 * kPiece + 12345}) {
    const Tensor host = zeros({bytes}, DType::u8);
    for (int64_t i = 0; i < bytes; ++i) host.data<uint8_t>()[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    const Tensor there = host.to(gpu), back = there.to(default_device());
    EXPECT_EQ(std::memcmp(back.data<uint8_t>(), host.data<uint8_t>(), static_cast<size_t>(bytes)), 0) << bytes;
  }
}

TEST_F(CudaCopy, FillsItsPartOnly) {
  const auto gpu = make_device("cuda:0");
  for (DType dtype : kDTypes) {
    const Tensor x = zeros({40}, dtype, gpu);
    fill(x.slice(0, 3, 36), 7);
    std::vector<double> expected(40, 0);
    std::fill(expected.begin() + 3, expected.begin() + 36, 7);
    EXPECT_EQ(x.to_vector(), expected) << name_of(dtype);
  }
}

TEST_F(CudaCopy, MovesEveryViewToTheGpuAndBack) {
  const auto gpu = make_device("cuda:0");
  for (const View& view : kViews)
    for (DType dtype : kDTypes) {
      const Tensor there = view.of(counting(view.whole, dtype, default_device())).to(gpu);
      EXPECT_EQ(there.device().name(), "cuda:0");
      const Tensor back = there.to(default_device());
      EXPECT_EQ(back.to_vector(), view.of(counting(view.whole, dtype, default_device())).to_vector()) << view.name << ' ' << name_of(dtype);
      EXPECT_EQ(view.of(counting(view.whole, dtype, gpu)).to(default_device()).to_vector(), back.to_vector())
          << view.name << " of the GPU, " << name_of(dtype);
    }
}

TEST_F(CudaCopy, StagesUploadsThatAreLargerThanPinnedMemory) {
  const int64_t bytes = (int64_t{40} << 20) + 5;  // five pieces of the four that are used in turn, and a tail
  const Tensor host = empty({bytes}, DType::u8);
  for (int64_t i = 0; i < bytes; ++i) host.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + (i >> 20));
  const Tensor back = host.to(make_device("cuda:0")).to(default_device());
  EXPECT_TRUE(std::equal(host.data<uint8_t>(), host.data<uint8_t>() + bytes, back.data<uint8_t>()));
}

TEST_F(CudaCopy, NeedsAContiguousTargetToCrossFromTheHost) {
  const Tensor target = zeros({4, 6}, DType::f32, make_device("cuda:0"));
  EXPECT_THROW(copy(zeros({6, 4}), target.transpose(0, 1)), UsageError);
}

TEST_F(CudaCopy, MovesViewsBetweenTwoGpusAndBack) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto first = make_device("cuda:0"), second = make_device("cuda:1");
  for (const View& view : kViews) {
    const Tensor here = view.of(counting(view.whole, DType::f32, first)), there = here.to(second);
    EXPECT_EQ(there.device().name(), "cuda:1");
    EXPECT_EQ(there.to_vector(), here.to_vector()) << view.name;
    EXPECT_EQ(there.to(first).to_vector(), here.to_vector()) << view.name;
  }
}

}  // namespace
}  // namespace sluice
