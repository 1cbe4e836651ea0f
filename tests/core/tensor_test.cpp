#include "core/tensor.h"

#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/padded_rows.h"

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

TEST(Tensor, GoesToNoDeviceThatIsNone) { EXPECT_THROW(empty({2}).to(nullptr), UsageError); }

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

TEST(Tensor, ReshapesRowsWithAStrideInPlace) {
  const Tensor rows = counting({6, 8}).slice(1, 0, 7), tokens = rows.reshape({2, 3, 7});
  EXPECT_TRUE(tokens.shares_storage(rows));
  EXPECT_EQ(tokens.stride(0), 24);
  EXPECT_EQ(tokens.stride(1), 8);
  EXPECT_EQ(tokens.stride(2), 1);
  EXPECT_EQ(tokens.reshape({6, 7}).stride(0), 8);
  EXPECT_TRUE(rows.can_reshape({1, 3, 2, 1, 7, 1}));
  EXPECT_FALSE(rows.can_reshape({42}));
  EXPECT_FALSE(rows.can_reshape({2, 21}));
  EXPECT_FALSE(rows.can_reshape({6, 8}));
}

/// Elements that hold their own places in memory, in row-major order of a shape: neighbours along each of its axes lie one stride apart.
bool has_strides(const std::vector<double>& places, int64_t a, int64_t b, int64_t c) {
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < c; ++k) {
        const double along_a = i == 0 ? 0 : places[b * c] - places[0], along_b = j == 0 ? 0 : places[c] - places[0];
        const double along_c = k == 0 ? 0 : places[1] - places[0];
        if (places[(i * b + j) * c + k] != places[0] + i * along_a + j * along_b + k * along_c) return false;
      }
  return true;
}

TEST(Tensor, ReshapesViewsWhereStridesExistAndNowhereElse) {
  const Tensor x = counting({2, 3, 4, 1});
  for (const Tensor& from :
       {x, x.transpose(0, 1), x.transpose(1, 2), x.transpose(0, 3), x.slice(2, 0, 3), x.slice(1, 1, 2), x.slice(1, 0, 2).transpose(0, 3)})
    for (int64_t a = 1; a <= from.elements(); ++a)
      for (int64_t b = 1; a * b <= from.elements(); ++b) {
        if (from.elements() % (a * b) != 0) continue;
        const int64_t c = from.elements() / (a * b);
        const std::vector<double> places = from.to_vector();
        ASSERT_EQ(from.can_reshape({a, b, c}), has_strides(places, a, b, c)) << from.shape() << " to " << Shape{a, b, c};
        if (from.can_reshape({a, b, c})) {
          EXPECT_EQ(from.reshape({a, b, c}).to_vector(), places);
        }
      }
}

TEST(Tensor, IsIndexedAsNumPyIs) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x[1][-1].to_vector(), (std::vector<double>{20, 21, 22, 23}));
  EXPECT_EQ(x[0][1][2].item(), 6);
  EXPECT_EQ(x.select(-1, 3).to_vector(), (std::vector<double>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(x[1].slice(0, -2).slice(1, 0, kEnd, 3).to_vector(), (std::vector<double>{16, 19, 20, 23}));
  EXPECT_EQ(x.permute({2, 0, 1})[3].to_vector(), x.select(2, 3).to_vector());
  x[1][0].data<float>()[0] = 40;
  EXPECT_EQ(x.to_vector()[12], 40) << "views share storage";
  EXPECT_THROW(x[2], UsageError);
  EXPECT_THROW(x[-3], UsageError);
  EXPECT_THROW(full({}, 1)[0], UsageError);
  EXPECT_THROW(x.slice(0, 0, 2, 0), UsageError);
}

TEST(Tensor, GainsAndLosesAxesOfExtentOneInAnyView) {
  const Tensor x = counting({3, 4}), rows = x.slice(1, 0, 3), flipped = x.transpose(0, 1);
  for (const Tensor& view : {x, rows, flipped, x.expand({2, 3, 4}), counting({}), counting({0, 2})})
    for (int axis = 0; axis <= view.rank(); ++axis) {
      const Tensor more = view.unsqueeze(axis);
      EXPECT_EQ(more.shape(), view.shape().inserted(axis, 1));
      EXPECT_EQ(more.to_vector(), view.to_vector());
      EXPECT_EQ(more.is_contiguous(), view.is_contiguous());
      EXPECT_TRUE(more.shares_storage(view));
      EXPECT_EQ(more.squeeze(axis).to_vector(), view.to_vector());
    }
  EXPECT_TRUE(has_rows(rows.unsqueeze(0))) << "its rows lie where they lay";
  EXPECT_EQ(counting({1, 2, 1}).squeeze().shape(), (Shape{2}));
  EXPECT_EQ(rows.flatten(0, 0).shape(), rows.shape());
  EXPECT_THROW(rows.flatten(), UsageError) << "elements would have to move";
}

TEST(Tensor, IsRepeatedWithoutMemory) {
  const Tensor x = counting({3, 1});
  const int64_t live = x.device().live_bytes();
  const Tensor wide = x.expand({2, 3, 4});
  EXPECT_EQ(x.device().live_bytes(), live);
  EXPECT_EQ(wide.to_vector(), (std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_TRUE(wide.repeats_elements());
  EXPECT_FALSE(wide.is_contiguous());
  EXPECT_FALSE(wide.contiguous().repeats_elements());
  EXPECT_EQ(wide.transpose(0, 2).contiguous().to_vector(), wide.transpose(0, 2).to_vector());
  EXPECT_EQ(cast(wide, DType::f64).to_vector(), wide.to_vector());
  EXPECT_EQ(counting({1}).expand({2, 3}).reshape({6}).to_vector(), std::vector<double>(6, 0)) << "one run of stride 0";
  EXPECT_EQ(as_matrix(wide).to_vector(), wide.to_vector());
  EXPECT_FALSE(has_rows(x.expand({3, 4})));
  EXPECT_FALSE(x.expand({3, 1}).repeats_elements());
  EXPECT_THROW(copy(counting({2, 3, 4}), wide), UsageError);
  EXPECT_THROW(x.expand({2, 4}), UsageError);
}

TEST(Tensor, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(x.reshape({4}), UsageError);
  EXPECT_THROW(x.transpose(0, 1).reshape({6}), UsageError);
  EXPECT_THROW(x.slice(0, 1, 3), UsageError);
  EXPECT_THROW(x.slice(0, -3, 1), UsageError);
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

TEST(Tensor, IsHandedToRoomThatIsCountedBeforeItComes) {
  const auto first = make_device("cpu:0"), second = make_device("cpu:1");
  Tensor here = full({16}, 3, DType::f32, first);
  const Tensor room = room_for({16}, DType::f32, second, *first);
  EXPECT_EQ(second->live_bytes(), 64);
  const auto [there, ready] = here.handed_to(room, {}, {});
  EXPECT_EQ(there.data<float>(), here.data<float>()) << "CPU devices share memory";
  EXPECT_EQ(second->live_bytes(), 64);
  EXPECT_FALSE(here.is_exclusive());
  EXPECT_FALSE(there.is_exclusive());
  here = {};
  EXPECT_EQ(first->live_bytes(), 0);
  EXPECT_EQ(there.to_vector(), std::vector<double>(16, 3));
}

TEST(Tensor, IsHandedOnlyToRoomOfItsShapeAndRowMajor) {
  const auto first = make_device("cpu:0"), second = make_device("cpu:1");
  const Tensor x = full({2, 3}, 3, DType::f32, first);
  EXPECT_THROW(x.handed_to(room_for({3, 2}, DType::f32, second, *first), {}, {}), UsageError);
  EXPECT_THROW(x.handed_to(room_for({2, 3}, DType::bf16, second, *first), {}, {}), UsageError);
  EXPECT_THROW(x.transpose(0, 1).handed_to(room_for({3, 2}, DType::f32, second, *first), {}, {}), UsageError);
}

TEST(Tensor, MovesOnlyBetweenDevicesOfOneKind) { EXPECT_THROW(zeros({2}).charged_to(make_device("meta:0")), UsageError); }

TEST(Tensor, HasNoMemoryOnMeta) {
  const auto meta = make_device("meta:0");
  const Tensor huge = empty({int64_t{1} << 40}, DType::f32, meta);
  EXPECT_EQ(meta->live_bytes(), int64_t{4} << 40);
  EXPECT_THROW(huge.data(), UsageError);
}

TEST(PaddedRows, BeginAtMultiplesOf16BytesWhereKernelsAreThoseOfAGpu) {
  const auto gpu = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = DeviceKind::cuda});
  const int64_t before = gpu->live_bytes();
  const Tensor logits = empty_rows({2, 3, 131}, DType::bf16, gpu);
  EXPECT_EQ(logits.stride(1), 136);
  EXPECT_EQ(logits.stride(0), 3 * 136);
  EXPECT_EQ(gpu->live_bytes() - before, Device::charged_size(6 * 136 * 2));
  EXPECT_TRUE(has_padded_rows(logits));
  EXPECT_FALSE(has_padded_rows(empty({6, 131}, DType::bf16, gpu)));
  EXPECT_TRUE(as_padded_matrix(logits).shares_storage(logits));
  EXPECT_EQ(empty_rows({5, 3}, DType::f32, gpu).stride(0), 4);
  EXPECT_EQ(empty_rows({5, 1}, DType::f64, gpu).stride(0), 2);
  EXPECT_TRUE(empty_rows({5, 8}, DType::bf16, gpu).is_contiguous());
  EXPECT_TRUE(empty_rows({5, 7}, DType::bf16, default_device()).is_contiguous());
}

TEST(PaddedRows, AreTheOnlyViewsThatAreHandedOn) {
  const auto gpu = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = DeviceKind::cuda});
  const Tensor logits = empty_rows({6, 131}, DType::bf16, gpu), rows = empty({6, 64}, DType::bf16, gpu);
  EXPECT_TRUE(handed_on(logits).shares_storage(logits));
  EXPECT_TRUE(handed_on(rows.reshape({3, 128})).shares_storage(rows));
  for (const Tensor& view : {logits.slice(0, 0, 6, 2), rows.slice(1, 0, 32), rows.slice(0, 0, 3), rows.transpose(0, 1)}) {
    const Tensor handed = handed_on(view);
    EXPECT_TRUE(handed.is_contiguous() && handed.shape() == view.shape() && !handed.shares_storage(view)) << view;
  }
  const Tensor on_cpu = counting({3, 8}), narrow = on_cpu.slice(1, 0, 7);
  EXPECT_EQ(handed_on(narrow).to_vector(), narrow.to_vector());
  EXPECT_FALSE(handed_on(narrow).shares_storage(on_cpu));
  const Tensor scalar = full({}, 2);
  EXPECT_TRUE(handed_on(scalar).shares_storage(scalar));
}

TEST(PaddedRows, AreMadeOfRowsThatLieOtherwise) {
  const Tensor x = counting({3, 8}), narrow = x.slice(1, 0, 7), flipped = x.transpose(0, 1);
  EXPECT_TRUE(has_rows(narrow));
  EXPECT_TRUE(as_matrix(narrow).shares_storage(x));
  EXPECT_FALSE(has_rows(flipped));
  EXPECT_EQ(as_matrix(flipped).to_vector(), flipped.to_vector());
  const Tensor packed = as_padded_matrix(narrow);
  EXPECT_EQ(packed.stride(0), 7);
  EXPECT_EQ(packed.to_vector(), narrow.to_vector());
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
