#include "data/synthetic_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

SyntheticShapes shapes(SyntheticShapes::Options options = {}) { return SyntheticShapes(options); }

std::vector<double> load(const SyntheticShapes& dataset, const std::string& input, std::vector<int64_t> samples,
                         Split split = Split::train) {
  return dataset.load(input, split, 0, samples).to_vector();
}

TEST(SyntheticShapes, AreAFunctionOfTheSeed) {
  for (const char* input : {"image", "mask"}) {
    const auto first = load(shapes({.seed = 5}), input, {3, 1});
    EXPECT_EQ(load(shapes({.seed = 5}), input, {3, 1}), first);
    EXPECT_NE(load(shapes({.seed = 6}), input, {3, 1}), first);
    EXPECT_NE(load(shapes({.seed = 5}), input, {3, 1}, Split::validation), first);
    auto turned = load(shapes({.seed = 5}), input, {1, 3});
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(turned.size() / 2), turned.end());
    EXPECT_EQ(turned, first);
  }
}

TEST(SyntheticShapes, HaveAPlaceForEachPixelAndEveryClass) {
  const auto dataset = shapes({.classes = 8, .image_size = 32, .channels = 1});
  std::vector<int64_t> samples(60);
  std::iota(samples.begin(), samples.end(), 0);
  EXPECT_EQ(dataset.load("image", Split::train, 0, samples).shape(), (Shape{60, 32, 32, 1}));
  const Tensor mask = dataset.load("mask", Split::train, 0, samples);
  EXPECT_EQ(mask.shape(), (Shape{60, 32, 32}));
  EXPECT_EQ(mask.dtype(), DType::i32);
  std::map<double, int> pixels;
  for (double label : mask.to_vector()) ++pixels[label];
  EXPECT_EQ(pixels.size(), 8u);
  EXPECT_EQ(pixels.begin()->first, 0);
  EXPECT_EQ(pixels.rbegin()->first, 7);
  EXPECT_EQ(dataset.class_names(),
            (std::vector<std::string>{"ground", "disc", "square", "triangle", "disc with stripes of 1", "square with stripes of 1",
                                      "triangle with stripes of 1", "disc with stripes of 2"}));
}

/// Without noise the ground is of one colour and figures are brighter.
TEST(SyntheticShapes, AreBrighterThanTheGround) {
  const auto dataset = shapes({.image_size = 20, .channels = 1, .noise = 0});
  for (int64_t sample = 0; sample < 20; ++sample) {
    const auto image = load(dataset, "image", {sample}), mask = load(dataset, "mask", {sample});
    double ground = 3;
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i] == 0) ground = image[i];
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0) {
        EXPECT_EQ(image[i], ground);
      } else if (ground < 3) {
        EXPECT_GT(image[i], ground);
      }
    }
  }
}

TEST(SyntheticShapes, RefuseWhatTheyCannotDraw) {
  expect_error<UsageError>([] { shapes({.classes = 1}); }, {"at least 2 classes", "got 1"});
  expect_error<UsageError>([] { shapes({.image_size = 0}); }, {"at least 1 pixel", "got 0"});
  expect_error<UsageError>([] { shapes({.channels = 5}); }, {"1 to 4 channels", "got 5"});
  expect_error<UsageError>([] { shapes({.noise = 2}); }, {"noise in [0, 1]", "got 2"});
  expect_error<UsageError>([] { load(shapes(), "label", {0}); }, {"asks for input 'label'", "image, mask"});
  expect_error<UsageError>([] { load(shapes({.train_samples = 3}), "mask", {3}); }, {"sample 0..2", "got 3"});
}

}  // namespace
}  // namespace sluice::data
