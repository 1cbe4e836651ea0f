#include "core/tensor.h"

#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace sluice {
namespace {

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  std::vector<double> elements(shape.elements());
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i);
  return tensor_of(elements, shape, dtype);
}

TEST(Tensor, ViewsShareStorage) {
  const Tensor x = counting({2, 3});
  const int64_t live = x.device().live_bytes();
  const Tensor row = x.slice(0, 1, 2), flipped = x.transpose(0, 1), flat = x.reshape({6});
  EXPECT_EQ(x.device().live_bytes(), live);
  x.data<float>()[4] = 40;
  EXPECT_EQ(row.to_vector(), (std::vector<double>{3, 40, 5}));
  EXPECT_EQ(flipped.to_vector(), (std::vector<double>{0, 3, 1, 40, 2, 5}));
  EXPECT_EQ(flat.to_vector(), (std::vector<double>{0, 1, 2, 3, 40, 5}));
}

TEST(Tensor, CloneHasStorageOfItsOwn) {
  const Tensor x = counting({3}), y = x.clone();
  y.data<float>()[0] = 7;
  EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 1, 2}));
}

TEST(Tensor, ContiguousCopiesOnlyStridedViews) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(x.contiguous().data<float>(), x.data<float>());
  EXPECT_EQ(x.slice(0, 1, 2).contiguous().data<float>(), x.data<float>() + 3);
  const Tensor flipped = x.transpose(0, 1);
  EXPECT_FALSE(flipped.is_contiguous());
  EXPECT_NE(flipped.contiguous().data<float>(), x.data<float>());
  EXPECT_EQ(flipped.contiguous().to_vector(), flipped.to_vector());
}

TEST(Tensor, ViewsKeepTheStorageAlive) {
  Tensor view;
  {
    const Tensor x = counting({4});
    view = x.slice(0, 2, 4);
  }
  EXPECT_EQ(view.to_vector(), (std::vector<double>{2, 3}));
}

TEST(Tensor, EmptyAndScalarShapesWork) {
  EXPECT_EQ(zeros({0, 3}).to_vector().size(), 0u);
  EXPECT_EQ(zeros({0, 3}).reshape({3, 0}).elements(), 0);
  EXPECT_EQ(full({}, 2.5).item(), 2.5);
}

TEST(Tensor, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(x.reshape({4}), UsageError);
  EXPECT_THROW(x.transpose(0, 1).reshape({6}), UsageError);
  EXPECT_THROW(x.slice(0, 1, 3), UsageError);
  EXPECT_THROW(x.slice(0, -1, 1), UsageError);
  EXPECT_THROW(x.slice(2, 0, 1), UsageError);
  EXPECT_THROW(x.item(), UsageError);
  EXPECT_THROW(x.data<double>(), UsageError);
  EXPECT_THROW(tensor_of({1, 2}, {3}), UsageError);
  EXPECT_THROW(Tensor().device(), UsageError);
}

TEST(Tensor, RefusesMoreBytesThan63BitsHold) { EXPECT_THROW(empty({int64_t{1} << 62}, DType::f32), UsageError); }

TEST(Tensor, IsChargedToEveryDeviceThatHoldsIt) {
  const auto first = make_device("cpu:0"), second = make_device("cpu:1");
  Tensor there;
  {
    const Tensor here = full({16}, 3, DType::f32, first);
    there = here.charged_to(second);
    EXPECT_EQ(there.data<float>(), here.data<float>());
    EXPECT_EQ(first->live_bytes(), 64);
    EXPECT_EQ(second->live_bytes(), 64);
  }
  EXPECT_EQ(first->live_bytes(), 0);
  EXPECT_EQ(there.to_vector(), std::vector<double>(16, 3));
  there = {};
  EXPECT_EQ(second->live_bytes(), 0);
}

TEST(Tensor, MovesOnlyBetweenDevicesOfOneKind) { EXPECT_THROW(zeros({2}).charged_to(make_device("meta:0")), UsageError); }

TEST(Tensor, HasNoMemoryOnMeta) {
  const auto meta = make_device("meta:0");
  const Tensor huge = empty({int64_t{1} << 40}, DType::f32, meta);
  EXPECT_EQ(meta->live_bytes(), int64_t{4} << 40);
  EXPECT_THROW(huge.data(), UsageError);
}

TEST(Copy, CastsBetweenEveryPairOfDtypes) {
  for (DType from : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    for (DType to : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
      EXPECT_EQ(cast(counting({2, 3}, from), to).to_vector(), (std::vector<double>{0, 1, 2, 3, 4, 5}))
          << name_of(from) << " to " << name_of(to);
}

TEST(Tensor, IsExclusiveUntilASecondHandleOrDeviceHasIt) {
  const auto device = make_device("cpu:0"), other = make_device("cpu:1");
  Tensor x = full({8}, 1, DType::f32, device);
  EXPECT_TRUE(x.is_exclusive());
  {
    const Tensor view = x.slice(0, 0, 4);
    EXPECT_FALSE(x.is_exclusive());
    EXPECT_TRUE(view.shares_storage(x));
  }
  EXPECT_TRUE(x.is_exclusive());
  EXPECT_FALSE(x.charged_to(other).is_exclusive());
  EXPECT_FALSE(x.is_exclusive()) << "the hand-over may still be read elsewhere, whether or not it is";
  EXPECT_FALSE(Tensor().is_exclusive());
}

TEST(AddPart, ReusesOnlyMemoryThatNothingElseReads) {
  const auto device = make_device("cpu:0");
  Tensor sum, part = full({16}, 2, DType::f32, device);
  add_part(sum, part);
  EXPECT_TRUE(sum.shares_storage(part));
  add_part(sum, full({16}, 3, DType::f32, device));
  EXPECT_EQ(part.to_vector(), std::vector<double>(16, 2)) << "the first part is still held";
  EXPECT_EQ(sum.to_vector(), std::vector<double>(16, 5));
  device->reset_peak();
  const int64_t before = device->live_bytes();
  add_part(sum, part);
  EXPECT_EQ(sum.to_vector(), std::vector<double>(16, 7));
  EXPECT_EQ(device->live_bytes(), before);
  EXPECT_EQ(device->peak_bytes(), before) << "added into the sum's own memory";
}

}  // namespace
}  // namespace sluice
