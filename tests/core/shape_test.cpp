#include "core/shape.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace sluice {
namespace {

TEST(Shape, RefusesHostileExtents) {
  EXPECT_THROW(Shape({2, -1}), UsageError);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), UsageError);
  EXPECT_THROW(Shape({int64_t{1} << 32, int64_t{1} << 32}), UsageError);
  EXPECT_THROW(Shape({0, int64_t{1} << 32, int64_t{1} << 32}), UsageError) << "an overflow that a 0 would hide";
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).elements(), 0);
  EXPECT_EQ((Shape{2, 3, 4}).elements_before(-1), 6);
}

TEST(Shape, CountsNegativeAxesFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.with(-3, 7), (Shape{7, 3, 4}));
  EXPECT_EQ(shape.without(1), (Shape{2, 4}));
  EXPECT_EQ(shape.appended(5), (Shape{2, 3, 4, 5}));
  EXPECT_THROW(shape[3], UsageError);
  EXPECT_THROW(shape[-4], UsageError);
}

TEST(Shape, DiffersWhenRanksDiffer) {
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{}), (Shape{1}));
  EXPECT_EQ((Shape{2, 1}).text(), "[2, 1]");
}

TEST(Shape, BroadcastsAsNumPyDoes) {
  EXPECT_EQ(broadcast_shape("add", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shape("add", {4, 1}, {5}), (Shape{4, 5}));
  EXPECT_EQ(broadcast_shape("add", {}, {2, 0}), (Shape{2, 0}));
  EXPECT_EQ(broadcast_shape("add", {1}, {0}), (Shape{0}));
  EXPECT_THROW(broadcast_shape("add", {2, 3}, {2}), UsageError);
}

}  // namespace
}  // namespace sluice
