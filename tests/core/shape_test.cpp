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

TEST(Shape, GainsJoinsAndSurroundsAxes) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.inserted(0, 5), (Shape{5, 2, 3, 4}));
  EXPECT_EQ(shape.inserted(-1, 5), (Shape{2, 3, 4, 5}));
  EXPECT_THROW(shape.inserted(4, 5), UsageError);
  EXPECT_EQ(flattened("test", shape, 0, -1), (Shape{24}));
  EXPECT_EQ(flattened("test", shape, 1, 1), shape);
  EXPECT_THROW(flattened("test", shape, 2, 1), UsageError);
  EXPECT_EQ(AxisView(shape, -2).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(AxisView(shape, 0).shape(), (Shape{1, 2, 12}));
}

TEST(Shape, CountsNegativeEndsOfRangesFromTheEnd) {
  using Range = std::pair<int64_t, int64_t>;
  EXPECT_EQ(normal_range("test", -3, -1, 5), (Range{2, 4}));
  EXPECT_EQ(normal_range("test", 1, kEnd, 5), (Range{1, 5}));
  EXPECT_EQ(normal_range("test", kEnd, kEnd, 5), (Range{5, 5}));
  EXPECT_EQ(normal_range("test", 0, 0, 0), (Range{0, 0}));
  EXPECT_THROW(normal_range("test", -6, 5, 5), UsageError);
  EXPECT_THROW(normal_range("test", 3, 2, 5), UsageError);
  EXPECT_THROW(normal_range("test", 0, 6, 5), UsageError);
  EXPECT_THROW(normal_range("test", INT64_MIN, INT64_MIN, 5), UsageError);
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
