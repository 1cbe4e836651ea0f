#include "data/tensor_augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/flip.h"
#include "core/ops/pad.h"
#include "core/ops/ramp.h"
#include "core/random.h"
#include "data/loader.h"
#include "data/tensor_dataset.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

using Values = std::vector<double>;

SampleView view(int64_t sample, Split split = Split::train) {
  return {.split = split, .epoch = 0, .sample = sample, .key = random_key(5, join("sample ", sample))};
}

/// Pixels 1, 2, 3 ..., no two alike.
Tensor numbered(const Shape& shape, DType dtype = DType::f32) {
  return arange(1, 1.0 + static_cast<double>(shape.elements()), 1, dtype).reshape(shape);
}

TEST(RandomCrop, TakesEveryPartOfThePaddedImage) {
  const Tensor image = numbered({3, 4, 2}), padded = pad(image, {{1, 1}, {1, 1}, {0, 0}}, -1);
  std::map<Values, int> found;
  for (int64_t sample = 0; sample < 200; ++sample) ++found[random_crop({.pad = 1, .fill = -1})(image, view(sample)).to_vector()];
  EXPECT_EQ(found.size(), 9U);
  for (int64_t top = 0; top < 3; ++top)
    for (int64_t left = 0; left < 3; ++left)
      EXPECT_TRUE(found.contains(padded.slice(0, top, top + 3).slice(1, left, left + 4).to_vector())) << top << ", " << left;
}

TEST(RandomCrop, TakesTheMiddleInTheValidationSplit) {
  const Tensor image = numbered({4, 6}, DType::u8);
  EXPECT_EQ(random_crop({.pad = 2})(image, view(1, Split::validation)).to_vector(), image.to_vector());
  const Tensor part = random_crop({.height = 2, .width = 4})(image, view(1, Split::validation));
  EXPECT_EQ(part.to_vector(), image.slice(0, 1, 3).slice(1, 1, 5).to_vector());
  EXPECT_EQ(part.dtype(), DType::u8);
}

TEST(RandomCrop, NamesImagesThatAreTooSmall) {
  const SampleFunction crop = random_crop({.pad = 1, .height = 8, .width = 4});
  EXPECT_EQ(crop(zeros({6, 4, 3}), view(0)).shape(), Shape({8, 4, 3}));
  expect_error<UsageError>(
      [&] {
        crop(zeros({5, 4, 3}), view(0));
      },
      {"random_crop: needs an image of at least 8 x 4 with 1 pixels around it, got [5, 4, 3]; pad more"});
  expect_error<UsageError>([&] { crop(zeros({6}), view(0)); }, {"random_crop: needs an image [H, W, C] or [H, W]", "[6]"});
  expect_error<UsageError>([] { random_crop({.pad = -1}); }, {"random_crop: needs pad, height and width >= 0, got -1"});
}

TEST(RandomFlip, MirrorsHalfOfTheSamplesAndTheirMasksAlike) {
  const Tensor image = numbered({2, 3, 2}), mask = numbered({2, 3}, DType::i32);
  const SampleFunction flip_half = random_flip();
  int flips = 0;
  for (int64_t sample = 0; sample < 200; ++sample) {
    const bool is_flipped = flip_half(image, view(sample)).to_vector() != image.to_vector();
    flips += is_flipped;
    EXPECT_EQ(flip_half(image, view(sample)).to_vector(), (is_flipped ? flip(image, {1}) : image).to_vector());
    EXPECT_EQ(flip_half(mask, view(sample)).to_vector(), (is_flipped ? flip(mask, {1}) : mask).to_vector());
    EXPECT_EQ(flip_half(image, view(sample, Split::validation)).to_vector(), image.to_vector());
    EXPECT_EQ(random_flip(1)(image, view(sample)).to_vector(), flip(image, {1}).to_vector());
    EXPECT_EQ(random_flip(0)(image, view(sample)).to_vector(), image.to_vector());
  }
  EXPECT_GT(flips, 70);
  EXPECT_LT(flips, 130);
  expect_error<UsageError>([] { random_flip(1.5); }, {"random_flip: needs a probability in [0, 1], got 1.5"});
}

/// The rectangle that holds all pixels that differ, as {top, left, height, width}.
std::vector<int64_t> rectangle_between(const Tensor& a, const Tensor& b) {
  std::set<int64_t> rows, columns;
  for (int64_t row = 0; row < a.dim(0); ++row)
    for (int64_t column = 0; column < a.dim(1); ++column)
      if (a[row][column].to_vector() != b[row][column].to_vector()) rows.insert(row), columns.insert(column);
  if (rows.empty()) return {0, 0, 0, 0};
  return {*rows.begin(), *columns.begin(), *rows.rbegin() - *rows.begin() + 1, *columns.rbegin() - *columns.begin() + 1};
}

TEST(RandomErasing, FillsARectangleOfTheAreaAndRatioAskedFor) {
  const Tensor image = numbered({16, 20, 2}), before = image.clone();
  const ErasingOptions options{.probability = 1, .least_area = 0.1, .most_area = 0.2, .steepest = 2, .fill = -3};
  std::set<std::vector<int64_t>> rectangles;
  for (int64_t sample = 0; sample < 100; ++sample) {
    const Tensor erased = random_erasing(options)(image, view(sample));
    const auto found = rectangle_between(image, erased);
    const auto height = static_cast<double>(found[2]), width = static_cast<double>(found[3]);
    EXPECT_GE((height + 0.5) * (width + 0.5), 0.1 * 16 * 20);
    EXPECT_LE((height - 0.5) * (width - 0.5), 0.2 * 16 * 20);
    EXPECT_LE(std::max((height - 0.5) / (width + 0.5), (width - 0.5) / (height + 0.5)), 2);
    const Tensor expected = image.clone();
    copy(full({found[2], found[3], 2}, -3), expected.slice(0, found[0], found[0] + found[2]).slice(1, found[1], found[1] + found[3]));
    EXPECT_EQ(erased.to_vector(), expected.to_vector());
    EXPECT_EQ(random_erasing(options)(image, view(sample, Split::validation)).to_vector(), before.to_vector());
    rectangles.insert(found);
  }
  EXPECT_GT(rectangles.size(), 50U);
  EXPECT_EQ(image.to_vector(), before.to_vector());
}

TEST(RandomErasing, LeavesImagesInWhichNoRectangleFitsAndRefusesOtherAreas) {
  const Tensor line = numbered({1, 40});
  EXPECT_EQ(random_erasing({.probability = 1, .least_area = 0.5, .most_area = 0.5, .steepest = 1})(line, view(1)).to_vector(),
            line.to_vector());
  expect_error<UsageError>([] { random_erasing({.least_area = 0.5, .most_area = 0.4}); }, {"0 < least <= most <= 1, got 0.5 and 0.4"});
  expect_error<UsageError>([] { random_erasing({.probability = -1}); }, {"random_erasing: needs a probability in [0, 1], got -1"});
  expect_error<UsageError>([] { random_erasing({.steepest = 0.5}); }, {"steepest ratio of sides >= 1, got 0.5"});
}

TEST(RandomColour, ScalesByOneNumberAndTheDistanceFromTheMeanByAnother) {
  const Tensor image = tensor_of({0.3, 0.4, 0.5, 0.6}, {2, 2, 1}, DType::f64);
  std::set<double> factors, contrasts;
  for (int64_t sample = 0; sample < 50; ++sample) {
    const Values lit = random_colour(0.2, 0)(image, view(sample)).to_vector();
    const double factor = lit[0] / 0.3;
    for (size_t i = 0; i < lit.size(); ++i) EXPECT_NEAR(lit[i], factor * image.to_vector()[i], 1e-12);
    const Values spread = random_colour(0, 0.5)(image, view(sample)).to_vector();
    const double contrast = (spread[3] - spread[0]) / 0.3;
    for (size_t i = 0; i < spread.size(); ++i) EXPECT_NEAR(spread[i], 0.45 + contrast * (image.to_vector()[i] - 0.45), 1e-12);
    factors.insert(factor), contrasts.insert(contrast);
  }
  EXPECT_GE(*factors.begin(), 0.8);
  EXPECT_LT(*factors.begin(), 0.85);
  EXPECT_LE(*factors.rbegin(), 1.2);
  EXPECT_GT(*factors.rbegin(), 1.15);
  EXPECT_GE(*contrasts.begin(), 0.5);
  EXPECT_LE(*contrasts.rbegin(), 1.5);
  EXPECT_GT(*contrasts.rbegin() - *contrasts.begin(), 0.8);
}

TEST(RandomColour, StaysWithinZeroAndOne) {
  const Tensor image = div(numbered({2, 2, 3}), full({}, 12));
  const auto most_of = [](const Values& values) { return *std::ranges::max_element(values); };
  for (int64_t sample = 0; sample < 50; ++sample) {
    const Values values = random_colour(1, 1)(image, view(sample)).to_vector();
    EXPECT_GE(*std::ranges::min_element(values), 0);
    EXPECT_LE(most_of(values), 1);
    EXPECT_EQ(random_colour(1, 1)(image, view(sample, Split::validation)).to_vector(), image.to_vector());
  }
  expect_error<UsageError>([] { random_colour(0.1, 1.1); }, {"random_colour: needs strengths in [0, 1], got 1.1"});
  expect_error<UsageError>([] { random_colour(0.1, 0.1)(zeros({2, 2}, DType::u8), view(0)); }, {"random_colour: needs floats", "u8"});
}

TEST(Normalisation, TakesANumberForEachChannelOrOneForAll) {
  const Tensor image = tensor_of({1, 2, 3, 4}, {1, 2, 2});
  for (const Split split : {Split::train, Split::validation}) {
    EXPECT_EQ(normalisation({1, 2}, {2, 4})(image, view(0, split)).to_vector(), (Values{0, 0, 1, 0.5}));
    EXPECT_EQ(normalisation({2}, {0.5})(image, view(0, split)).to_vector(), (Values{-2, 0, 2, 4}));
  }
  const Tensor of_bytes = normalisation({128}, {64})(tensor_of({0, 255}, {1, 2}, DType::u8), view(0));
  EXPECT_EQ(of_bytes.dtype(), DType::f32);
  EXPECT_EQ(of_bytes.to_vector(), (Values{-2, 127.0 / 64}));
  expect_error<UsageError>([] { normalisation({1, 2}, {1}); }, {"a mean and a deviation for each channel, got 2 and 1"});
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  expect_error<UsageError>([] { normalisation({1}, {kInfinity}); }, {"needs finite deviations > 0, got inf"});  // made all images alike
  expect_error<UsageError>([] { normalisation({kNaN}, {1}); }, {"needs finite means, got nan"});
  expect_error<UsageError>([] { normalisation({1}, {0}); }, {"normalisation: needs finite deviations > 0, got 0"});
  expect_error<UsageError>([&] { normalisation({1, 2, 3}, {1, 1, 1})(image, view(0)); }, {"needs 3 channels", "got [1, 2, 2]"});
  expect_error<UsageError>([] { normalisation({1}, {1})(zeros({2}, DType::i32), view(0)); }, {"needs floats or u8", "i32"});
}

/// A batch of such targets had an axis more, which models refused.
TEST(Normalisation, OfANumberForEachSampleKeepsItsShape) {
  const auto source = std::make_shared<TensorDataset>(TensorDataset::Inputs{{"price", tensor_of({1, 3, 5}, {3})}});
  const MapDataset normalised(source, {{"price", normalisation({3}, {2})}});
  const Tensor prices = normalised.load("price", Split::train, 0, std::vector<int64_t>{0, 2});
  EXPECT_EQ(prices.shape(), (Shape{2}));
  EXPECT_EQ(prices.to_vector(), (Values{-1, 1}));
}

TEST(TensorAugmentation, IsOneAnswerForAnyNumberOfThreadsAndAnotherInEveryEpoch) {
  const Tensor images = rand({8, 6, 6, 3}, 1);
  const auto source = std::make_shared<TensorDataset>(TensorDataset::Inputs{{"image", images}});
  const auto all =
      in_turn({random_crop({.pad = 2}), random_flip(), random_erasing(), random_colour(0.2, 0.2), normalisation({0.5}, {0.25})});
  const auto augmented = std::make_shared<MapDataset>(source, std::map<std::string, SampleFunction>{{"image", all}});
  Loader plain(augmented, {.batch = 4, .seed = 3, .threads = 0}), threads(augmented, {.batch = 4, .seed = 3, .threads = 3});
  for (int64_t step = 0; step < 6; ++step)
    EXPECT_EQ(threads.at(step).load("image", 0, 4).to_vector(), plain.at(step).load("image", 0, 4).to_vector());
  const std::vector<int64_t> first{0};
  EXPECT_NE(augmented->load("image", Split::train, 0, first).to_vector(), augmented->load("image", Split::train, 1, first).to_vector());
  expect_error<UsageError>([] { in_turn({random_flip(), nullptr}); }, {"in_turn: needs functions"});
}

}  // namespace
}  // namespace sluice::data
