#include "training/metrics/classification.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::training {
namespace {

Classification three_classes() { return Classification({"shirt", "boot", "bag"}); }

TEST(Classification, CountsOverBatches) {
  Classification classification = three_classes();
  classification.add(tensor_of({5, 1, 0, 0, 2, 3}, {2, 3}, DType::f32), tensor_of({0, 1}, {2}, DType::i32));
  classification.add(tensor_of({1, 2, 3}, {1, 3}, DType::f32), tensor_of({0}, {1}, DType::i32));
  EXPECT_EQ(classification.samples(), 3);
  EXPECT_DOUBLE_EQ(classification.top(1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(classification.top(2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(classification.top(5), 1);
  EXPECT_EQ(classification.confusion(), (std::vector<std::vector<int64_t>>{{1, 0, 1}, {0, 0, 1}, {0, 0, 0}}));
}

TEST(Classification, OfEqualLogitsTheLowerClassComesFirst) {
  Classification classification = three_classes();
  classification.add(tensor_of({1, 1, 1, 1, 1, 1}, {2, 3}, DType::f32), tensor_of({0, 2}, {2}, DType::i32));
  EXPECT_DOUBLE_EQ(classification.top(1), 0.5);
  EXPECT_DOUBLE_EQ(classification.top(2), 0.5);
  EXPECT_EQ(classification.confusion()[2][0], 1);
}

TEST(Classification, OfPixelsLeavesOutThoseWithoutAClass) {
  Classification classification = three_classes();
  classification.add(tensor_of({9, 0, 0, 0, 9, 0, 0, 9, 0, 9, 0, 0}, {1, 2, 2, 3}, DType::f32),
                     tensor_of({0, 0, 1, -100}, {1, 2, 2}, DType::i32));
  EXPECT_EQ(classification.samples(), 3);
  EXPECT_DOUBLE_EQ(classification.top(1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(classification.mean_iou(), 0.5);  // of shirt 1 of 2, of boot 1 of 2; there is no bag
}

TEST(Classification, TableHasARowALabel) {
  Classification classification = three_classes();
  classification.add(tensor_of({0, 9, 0}, {1, 3}, DType::f32), tensor_of({0}, {1}, DType::i32));
  EXPECT_EQ(classification.table(),
            "  label | 0 1 2\n"
            "0 shirt | 0 1 0\n"
            "1 boot  | 0 0 0\n"
            "2 bag   | 0 0 0\n");
}

TEST(Classification, RefusesOtherClasses) {
  Classification classification = three_classes();
  expect_error<UsageError>(
      [&] {
        classification.add(tensor_of({1, 2}, {1, 2}, DType::f32), tensor_of({0}, {1}, DType::i32));
      },
      {"3 classes", "[1, 2]"});
  expect_error<UsageError>(
      [&] {
        classification.add(tensor_of({1, 2, 3}, {1, 3}, DType::f32), tensor_of({3}, {1}, DType::i32));
      },
      {"labels from 0 to 2", "got 3"});
}

}  // namespace
}  // namespace sluice::training
