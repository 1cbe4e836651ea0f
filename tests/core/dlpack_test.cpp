#include "core/dlpack.h"

#include <gtest/gtest.h>

#include "core/elements.h"
#include "core/ops/copy.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

using namespace dlpack;

/// A tensor of another library: six numbers, and a deleter that counts its calls.
struct Foreign {
  Foreign() {
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) { ++static_cast<Foreign*>(self->manager_ctx)->deletions; };
    managed.dl_tensor = {numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  }
  Foreign(const Foreign&) = delete;
  DlpackPtr handed_over() { return DlpackPtr(&managed); }

  alignas(64) float numbers[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[9] = {2, 3}, strides[9] = {3, 1};
  int deletions = 0;
  DLManagedTensorVersioned managed;
};

TEST(FromDlpack, TheMemoryIsThatOfTheOtherLibrary) {
  Foreign foreign;
  const Tensor x = from_dlpack(foreign.handed_over());
  EXPECT_EQ(x.data<float>(), foreign.numbers);
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  foreign.numbers[5] = 7;
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 7}));
  fill(x, 8);
  EXPECT_EQ(foreign.numbers[0], 8);
}

TEST(FromDlpack, TheDeleterIsCalledOnceWhenTheLastViewIsGone) {
  Foreign foreign;
  Tensor x = from_dlpack(foreign.handed_over());
  Tensor view = x.slice(0, 1).transpose(0, 1);
  Tensor moved = x.charged_to(make_device("cpu:1"));
  x = Tensor();
  EXPECT_EQ(view.to_vector(), (std::vector<double>{4, 5, 6}));
  view = Tensor();
  EXPECT_EQ(foreign.deletions, 0);
  moved = Tensor();
  EXPECT_EQ(foreign.deletions, 1);
}

TEST(FromDlpack, WithoutADeleterNothingIsCalled) {
  Foreign foreign;
  foreign.managed.deleter = nullptr;
  EXPECT_EQ(from_dlpack(foreign.handed_over()).elements(), 6);
}

TEST(FromDlpack, TheMemoryIsCountedOnNoDeviceAndNeverExclusive) {
  Foreign foreign;
  const DevicePtr device = make_device("cpu:0");
  const Tensor x = from_dlpack(foreign.handed_over(), device);
  EXPECT_EQ(device->live_bytes(), 0);
  EXPECT_FALSE(x.is_exclusive());
  const Tensor copy = x.clone();
  EXPECT_EQ(device->live_bytes(), 64);
}

TEST(FromDlpack, StridesAndByteOffsetAreKept) {
  Foreign foreign;
  foreign.shape[0] = 3, foreign.shape[1] = 1;
  foreign.strides[0] = 2, foreign.strides[1] = 100;
  foreign.managed.dl_tensor.byte_offset = sizeof(float);
  EXPECT_EQ(from_dlpack(foreign.handed_over()).to_vector(), (std::vector<double>{2, 4, 6}));
}

TEST(FromDlpack, WithoutStridesElementsAreRowMajor) {
  Foreign foreign;
  foreign.managed.dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(foreign.handed_over()).transpose(0, 1).to_vector(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(FromDlpack, ReadOnlyMemoryIsCopiedAndGivenBackAtOnce) {
  Foreign foreign;
  foreign.managed.flags = kReadOnly;
  const Tensor x = from_dlpack(foreign.handed_over());
  EXPECT_EQ(foreign.deletions, 1);
  fill(x, 0);
  EXPECT_EQ(foreign.numbers[0], 1);
}

TEST(FromDlpack, NoElementsNeedNoMemory) {
  Foreign foreign;
  foreign.managed.dl_tensor.data = nullptr;
  foreign.shape[0] = 0;
  EXPECT_EQ(from_dlpack(foreign.handed_over()).shape(), Shape({0, 3}));
  EXPECT_EQ(foreign.deletions, 1);
}

TEST(FromDlpack, AScalarNeedsNoExtents) {
  Foreign foreign;
  foreign.managed.dl_tensor.ndim = 0;
  foreign.managed.dl_tensor.shape = foreign.managed.dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(foreign.handed_over()).item(), 1);
}

TEST(FromDlpack, EveryDtypeOfSluiceAndBoolAreTaken) {
  const std::vector<std::pair<DLDataType, DType>> types{
      {{kDLFloat, 32, 1}, DType::f32}, {{kDLFloat, 64, 1}, DType::f64}, {{kDLBfloat, 16, 1}, DType::bf16}, {{kDLInt, 32, 1}, DType::i32},
      {{kDLInt, 64, 1}, DType::i64},   {{kDLUInt, 8, 1}, DType::u8},    {{kDLBool, 8, 1}, DType::u8}};
  for (const auto& [type, dtype] : types) {
    Foreign foreign;
    foreign.managed.dl_tensor.dtype = type;
    foreign.shape[1] = 1;
    foreign.strides[0] = 1;
    EXPECT_EQ(from_dlpack(foreign.handed_over()).dtype(), dtype);
  }
}

struct BadTensor {
  const char* what;
  void (*damage)(Foreign& foreign);
  const char* reason;
};

class BadDlpack : public testing::TestWithParam<BadTensor> {};

TEST_P(BadDlpack, IsRefusedWithTheCureAndGivenBackOnce) {
  Foreign foreign;
  GetParam().damage(foreign);
  expect_error<UsageError>([&] { from_dlpack(foreign.handed_over()); }, {GetParam().reason});
  EXPECT_EQ(foreign.deletions, 1);
}

INSTANTIATE_TEST_SUITE_P(
    List, BadDlpack,
    testing::Values(BadTensor{"version", [](Foreign& f) { f.managed.version.major = 2; }, "max_version"},
                    BadTensor{"half floats", [](Foreign& f) { f.managed.dl_tensor.dtype.bits = 16; }, "convert it"},
                    BadTensor{"lanes", [](Foreign& f) { f.managed.dl_tensor.dtype.lanes = 4; }, "4 lanes"},
                    BadTensor{"code", [](Foreign& f) { f.managed.dl_tensor.dtype.code = 99; }, "code 99"},
                    BadTensor{"device", [](Foreign& f) { f.managed.dl_tensor.device.device_type = 10; }, "device type 10"},
                    BadTensor{"gpu",
                              [](Foreign& f) {
                                f.managed.dl_tensor.device = {kDLCUDA, 3};
                              },
                              "make_device(\"cuda:3\")"},
                    BadTensor{"negative rank", [](Foreign& f) { f.managed.dl_tensor.ndim = -1; }, "0 to 8 axes"},
                    BadTensor{"rank 9", [](Foreign& f) { f.managed.dl_tensor.ndim = 9; }, "reshape it"},
                    BadTensor{"no shape", [](Foreign& f) { f.managed.dl_tensor.shape = nullptr; }, "set shape"},
                    BadTensor{"negative extent", [](Foreign& f) { f.shape[0] = -1; }, "extents >= 0"},
                    BadTensor{"huge extents", [](Foreign& f) { f.shape[0] = f.shape[1] = int64_t{1} << 40; }, "63 bits"},
                    BadTensor{"huge strides", [](Foreign& f) { f.strides[0] = INT64_MAX / 2; }, "63 bits"},
                    BadTensor{"negative stride", [](Foreign& f) { f.strides[1] = -1; }, "row-major order first"},
                    BadTensor{"no data", [](Foreign& f) { f.managed.dl_tensor.data = nullptr; }, "memory of its own"},
                    BadTensor{"odd address", [](Foreign& f) { f.managed.dl_tensor.byte_offset = 1; }, "multiple of 4"}));

TEST(FromDlpack, NullAndMetaDevicesAreRefused) {
  Foreign foreign;
  expect_error<UsageError>([] { from_dlpack(nullptr); }, {"null pointer"});
  expect_error<UsageError>([&] { from_dlpack(foreign.handed_over(), make_device("meta:0")); }, {"got meta:0", "cpu:0"});
  EXPECT_EQ(foreign.deletions, 1);
}

TEST(ToDlpack, TheOtherLibrarySeesMemoryShapeAndStrides) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, DType::bf16).transpose(0, 1).slice(0, 1);
  const DlpackPtr managed = to_dlpack(x);
  const DLTensor& seen = managed->dl_tensor;
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, 0u);
  EXPECT_EQ(seen.data, x.data());
  EXPECT_EQ(seen.byte_offset, 0u);
  EXPECT_EQ(seen.device.device_type, kDLCPU);
  EXPECT_EQ(seen.dtype.code, kDLBfloat);
  EXPECT_EQ(seen.dtype.bits, 16);
  EXPECT_EQ(seen.dtype.lanes, 1);
  ASSERT_EQ(seen.ndim, 2);
  EXPECT_EQ(seen.shape[0], 2);
  EXPECT_EQ(seen.shape[1], 2);
  EXPECT_EQ(seen.strides[0], 1);
  EXPECT_EQ(seen.strides[1], 3);
}

TEST(ToDlpack, TheMemoryLivesUntilTheDeleterIsCalled) {
  const DevicePtr device = make_device("cpu:0");
  Tensor x = full({4}, 2.5, DType::f32, device);
  DlpackPtr managed = to_dlpack(x);
  EXPECT_FALSE(x.is_exclusive());
  x = Tensor();
  EXPECT_EQ(static_cast<float*>(managed->dl_tensor.data)[3], 2.5f);
  EXPECT_EQ(device->live_bytes(), 64);
  managed.reset();
  EXPECT_EQ(device->live_bytes(), 0);
}

TEST(ToDlpack, ThereAndBackIsTheSameMemory) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    const Tensor x = tensor({{1, 2}, {3, 4}}, dtype).transpose(0, 1);
    const Tensor back = from_dlpack(to_dlpack(x));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.data(), x.data());
    EXPECT_EQ(back.to_vector(), x.to_vector());
  }
  EXPECT_EQ(from_dlpack(to_dlpack(empty({0, 3}))).shape(), Shape({0, 3}));
}

TEST(ToDlpack, RepeatedElementsAreReadOnly) {
  EXPECT_EQ(to_dlpack(tensor({1}).expand({3}))->flags, kReadOnly);
  EXPECT_EQ(from_dlpack(to_dlpack(tensor({7}).expand({3}))).to_vector(), (std::vector<double>{7, 7, 7}));
}

TEST(FromDlpack, ElementsThatShareMemoryAreReadInPlaceAndNotWritten) {
  struct Case {
    std::vector<int64_t> shape, strides;
    bool shares;
  };
  for (const auto& [shape, strides, shares] : {Case{{2, 3}, {0, 1}, true}, Case{{2, 3}, {1, 1}, true}, Case{{3, 2}, {1, 2}, true},
                                               Case{{2, 2}, {3, 1}, false}, Case{{2, 3}, {1, 2}, false}, Case{{2, 1}, {1, 0}, false}}) {
    Foreign foreign;
    std::ranges::copy(shape, foreign.shape);
    std::ranges::copy(strides, foreign.strides);
    const Tensor x = from_dlpack(foreign.handed_over());
    EXPECT_EQ(x.data<float>(), foreign.numbers);
    EXPECT_EQ(x.repeats_elements(), shares);
    EXPECT_EQ(to_dlpack(x)->flags, shares ? kReadOnly : 0);
    std::vector<double> expected;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j) expected.push_back(static_cast<double>(1 + i * strides[0] + j * strides[1]));
    EXPECT_EQ(x.to_vector(), expected);
    const auto write = [&] { copy(zeros(x.shape()), x); };
    if (shares)
      expect_error<UsageError>(write, {"copy", "overlapping strides", "clone()"});
    else
      EXPECT_NO_THROW(write());
  }
}

TEST(ToDlpack, TensorsWithoutElementsInMemoryAreRefused) {
  expect_error<UsageError>([] { to_dlpack(Tensor()); }, {"defined tensor"});
  expect_error<UsageError>([] { to_dlpack(empty({3}, DType::f32, make_device("meta:0"))); }, {"f32 [3] on meta:0", "cpu or cuda"});
}

using CudaDlpack = CudaTest;

TEST_F(CudaDlpack, ThereAndBackIsTheSameMemoryOfTheGpu) {
  const DevicePtr gpu = make_device("cuda:0");
  const int64_t before = gpu->live_bytes();
  Tensor x = tensor({1.5, 2, 3}).to(gpu);
  DlpackPtr managed = to_dlpack(x);
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  Tensor back = from_dlpack(std::move(managed), gpu);
  EXPECT_EQ(back.data(), x.data());
  x = Tensor();
  EXPECT_EQ(back.to_vector(), (std::vector<double>{1.5, 2, 3}));
  fill(back, 1);
  back = Tensor();
  EXPECT_EQ(gpu->live_bytes(), before);
}

TEST_F(CudaDlpack, MemoryOfTheHostIsRefusedOnAGpu) {
  Foreign foreign;
  expect_error<UsageError>([&] { from_dlpack(foreign.handed_over(), make_device("cuda:0")); }, {"make_device(\"cpu:0\")"});
  EXPECT_EQ(foreign.deletions, 1);
}

}  // namespace
}  // namespace sluice
