#include "data/augmentation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "data/resize.h"
#include "image_files.h"

namespace sluice::data {
namespace {

constexpr Colour kFill{9, 9, 9, 9};
constexpr Augmentation kAll{.inception_crop = true, .pad = 2, .flip = true, .colour_jitter = 0.4, .cutout = 4};

/// Every pixel tells its place.
Image marked_image(int64_t height, int64_t width) {
  Image image = Image::of_size(height, width, 1);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i + 10);
  return image;
}

int64_t count(const Image& image, uint8_t value) { return std::count(image.pixels.begin(), image.pixels.end(), value); }

RC_GTEST_PROP(Resize, KeepsAImageOfOneColourWhateverTheSizes, ()) {
  const auto size = [] { return *rc::gen::inRange<int64_t>(1, 200); };
  Image image = Image::of_size(size(), size(), 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(50 * (i % 3) + 105);
  const Image result = resize(image, {0, 0, image.height, image.width}, size(), size());
  for (size_t i = 0; i < result.pixels.size(); ++i) RC_ASSERT(result.pixels[i] == 50 * (i % 3) + 105);
}

TEST(Resize, KeepsAImageOfTheSameSize) {
  const Image image = marked_image(9, 11);
  EXPECT_EQ(resize(image, {0, 0, 9, 11}, 9, 11), image);
  EXPECT_EQ(resize_middle(marked_image(4, 4), 4), marked_image(4, 4));
}

TEST(Resize, GrowsBilinearly) { EXPECT_EQ(resize({1, 2, 1, {0, 100}}, {0, 0, 1, 2}, 1, 4).pixels, (std::vector<uint8_t>{0, 25, 75, 100})); }

TEST(Resize, AveragesAFinePatternAwayWhenItShrinks) {
  Image stripes = Image::of_size(64, 64, 1);
  for (size_t i = 0; i < stripes.pixels.size(); ++i) stripes.pixels[i] = i % 2 ? 200 : 0;
  for (const uint8_t pixel : resize_middle(stripes, 8).pixels) EXPECT_NEAR(pixel, 100, 8);
}

TEST(Resize, TakesTheMiddleSquareOrTheGivenPart) {
  const Image wide{1, 3, 1, {1, 2, 3}};
  EXPECT_EQ(resize_middle(wide, 1).pixels, std::vector<uint8_t>{2});
  EXPECT_EQ(resize(marked_image(4, 4), {1, 2, 2, 2}, 2, 2).pixels, (std::vector<uint8_t>{16, 17, 20, 21}));
  EXPECT_THROW(resize(wide, {0, 1, 1, 3}, 1, 1), UsageError);
  EXPECT_THROW(resize(wide, {0, 0, 1, 1}, 0, 1), UsageError);
}

TEST(Flip, MirrorsHalfOfTheViewsAndNothingElse) {
  const Image image{1, 3, 2, {1, 2, 3, 4, 5, 6}}, mirrored{1, 3, 2, {5, 6, 3, 4, 1, 2}};
  int flipped = 0;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const Image result = flip(image, {.key = 1, .sample = sample});
    EXPECT_TRUE(result == image || result == mirrored);
    flipped += result == mirrored;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(PaddedCrop, ReachesEveryPlaceAndFillsWhatIsOutside) {
  const Image image = marked_image(3, 3);
  std::set<std::string> seen;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const Image result = padded_crop(image, 1, kFill, {.key = 2, .sample = sample});
    const int64_t outside = count(result, kFill[0]);
    EXPECT_TRUE(outside == 0 || outside == 3 || outside == 5) << outside;
    seen.emplace(result.pixels.begin(), result.pixels.end());
  }
  EXPECT_EQ(seen.size(), 9u);
}

TEST(InceptionCrop, GivesImagesOfTheAskedSizeFromPartsOfManySizes) {
  const Image image = smooth_image(40, 60, 3);
  std::set<int> ranges;
  for (int64_t sample = 0; sample < 200; ++sample) {
    const Image result = inception_crop(image, 16, {.key = 3, .sample = sample});
    ASSERT_EQ(result.pixels.size(), 16u * 16 * 3);
    const auto [low, high] = std::minmax_element(result.pixels.begin(), result.pixels.end());
    ranges.insert(*high - *low);
  }
  EXPECT_GT(ranges.size(), 20u);
}

TEST(InceptionCrop, OfAVeryLongImageTakesTheMiddle) {
  Image image = Image::of_size(1, 300, 1);
  image.pixels[149] = 77;
  EXPECT_EQ(inception_crop(image, 1, {}).pixels, resize_middle(image, 1).pixels);
}

TEST(ColourJitter, OfNoStrengthChangesNothingAndElseStaysWithinItsFactors) {
  const Image image = smooth_image(8, 8, 3);
  EXPECT_EQ(colour_jitter(image, 0, {.key = 4}), image);
  const Image grey{2, 2, 1, {100, 100, 100, 100}};
  std::set<uint8_t> seen;
  for (int64_t sample = 0; sample < 200; ++sample) {
    const Image result = colour_jitter(grey, 0.5, {.key = 4, .sample = sample});
    EXPECT_GE(result.pixels[0], 50);  // contrast is about the mean, which every pixel here is
    EXPECT_LE(result.pixels[0], 150);
    seen.insert(result.pixels[0]);
  }
  EXPECT_GT(seen.size(), 50u);
  EXPECT_THROW(colour_jitter(image, 1.5, {}), UsageError);
}

TEST(Cutout, FillsASquareThatMayReachOverTheEdge) {
  std::set<int64_t> sizes;
  for (int64_t sample = 0; sample < 500; ++sample) sizes.insert(count(cutout(marked_image(9, 9), 4, kFill, {.sample = sample}), kFill[0]));
  EXPECT_EQ(*sizes.rbegin(), 16);
  EXPECT_EQ(*sizes.begin(), 4);
}

RC_GTEST_PROP(Augmentation, IsAFunctionOfSeedEpochAndSample, (uint64_t key)) {
  const Image image = smooth_image(20, 30, 3);
  const auto view = [&](uint64_t of_key, int64_t epoch, int64_t sample) {
    return augment(image, 16, kAll, kFill, {of_key, epoch, sample});
  };
  const Image first = view(key, 3, 5);
  RC_ASSERT(view(key, 3, 5) == first);
  RC_ASSERT(view(key, 4, 5) != first);
  RC_ASSERT(view(key, 3, 6) != first);
  RC_ASSERT(view(key + 1, 3, 5) != first);
}

TEST(Augmentation, ThatIsOffOnlyResizes) {
  const Image image = smooth_image(20, 30, 3);
  EXPECT_EQ(augment(image, 16, {}, kFill, {.key = 1, .epoch = 2, .sample = 3}), resize_middle(image, 16));
}

TEST(Augmentation, OfOneKindDrawsTheSameWhateverElseIsOn) {
  const Image image = marked_image(8, 8);
  for (int64_t sample = 0; sample < 20; ++sample) {
    const ImageView view{.key = 5, .sample = sample};
    EXPECT_EQ(augment(image, 8, {.flip = true, .cutout = 3}, kFill, view), cutout(flip(image, view), 3, kFill, view));
  }
}

}  // namespace
}  // namespace sluice::data
