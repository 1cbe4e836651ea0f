#include "data/image_dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/file/file.h"
#include "data/image_folder.h"
#include "data/image_split.h"
#include "data/loader.h"
#include "data/synthetic_images.h"
#include "expect_error.h"
#include "image_files.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

const Normalisation kPlain{{0, 0, 0}, {1, 1, 1}};
constexpr Augmentation kAll{.inception_crop = true, .pad = 2, .flip = true, .colour_jitter = 0.4, .cutout = 4};

ImageSplits synthetic(int64_t samples = 60) {
  return synthetic_images({.image_size = 12, .seed = 7, .train_samples = samples, .validation_samples = 20});
}

/// Four grey images of 1 x 1 with labels 0 1 2 3.
ImageSourcePtr four_images() {
  return std::make_shared<ImageArray>(1, 1, 1, std::vector<uint8_t>{0, 100, 155, 255}, std::vector<uint8_t>{0, 1, 2, 3},
                                      numbered_classes(4));
}

std::string text_of(const Image& image) { return {image.pixels.begin(), image.pixels.end()}; }

std::vector<float> floats_of(const Tensor& x) { return {x.data<float>(), x.data<float>() + x.elements()}; }

TEST(ImageDataset, LoadsNormalisedImagesAndLabels) {
  const ImageDataset dataset({four_images(), nullptr}, {.image_size = 1}, {{0.5}, {0.25}});
  const std::vector<int64_t> samples{3, 1};
  const Tensor image = dataset.load("image", Split::train, 0, samples), label = dataset.load("label", Split::train, 0, samples);
  EXPECT_EQ(image.shape(), (Shape{2, 1, 1, 1}));
  EXPECT_FLOAT_EQ(image.data<float>()[0], 2);
  EXPECT_FLOAT_EQ(image.data<float>()[1], (100.0f / 255 - 0.5f) * 4);
  EXPECT_EQ(label.shape(), (Shape{2}));
  EXPECT_EQ(label.data<int32_t>()[0], 3);
  EXPECT_EQ(dataset.size(Split::validation), 0);
}

TEST(ImageDataset, RefusesUnknownInputsSamplesAndConstants) {
  const ImageDataset dataset({four_images(), nullptr}, {.image_size = 1}, {{0.5}, {0.25}});
  const std::vector<int64_t> outside{4};
  expect_error<UsageError>([&] { dataset.load("tokens", Split::train, 0, outside); }, {"'tokens'", "image, label"});
  expect_error<UsageError>([&] { dataset.load("image", Split::train, 0, outside); }, {"0..3", "got 4"});
  EXPECT_THROW(ImageDataset({four_images(), nullptr}, {.image_size = 0}, {{0.5}, {0.25}}), UsageError);
  expect_error<UsageError>([] { ImageDataset({four_images(), nullptr}, {.image_size = 1}, {{0.5}, {0}}); }, {"deviation above 0"});
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [mean, deviation] : {std::pair(0.5, kInfinity), {kNaN, 0.25}})
    expect_error<UsageError>([=] { ImageDataset({four_images(), nullptr}, {.image_size = 1}, {{mean}, {deviation}}); }, {"finite"});
  EXPECT_THROW(ImageDataset({four_images(), nullptr}, {.image_size = 1}, kPlain), UsageError);
}

TEST(ImageDataset, GivesTheSameBatchesForAnyNumberOfLoaderThreads) {
  const auto dataset = std::make_shared<ImageDataset>(synthetic(), ImageOptions{.image_size = 12, .seed = 3, .augmentation = kAll}, kPlain);
  Loader plain(dataset, {.batch = 7, .seed = 1, .threads = 0});
  for (int threads = 1; threads <= 4; ++threads) {
    Loader loader(dataset, {.batch = 7, .seed = 1, .threads = threads});
    for (int64_t step = 0; step < 12; ++step)
      EXPECT_EQ(floats_of(loader.at(step).load("image", 0, 7)), floats_of(plain.at(step).load("image", 0, 7)));
  }
  EXPECT_GT(plain.seconds_waited(), 0);
}

TEST(ImageDataset, AugmentsTrainingImagesOnlyAndAnewInEveryEpoch) {
  const ImageDataset dataset(synthetic(), {.image_size = 12, .augmentation = kAll}, kPlain);
  EXPECT_NE(dataset.image(Split::train, 0, 1), dataset.image(Split::train, 1, 1));
  EXPECT_EQ(dataset.image(Split::train, 1, 1), dataset.image(Split::train, 1, 1));
  EXPECT_EQ(dataset.image(Split::validation, 0, 1), dataset.image(Split::validation, 1, 1));
}

TEST(ImageDataset, ResizesImagesToTheModel) {
  const ImageDataset dataset(synthetic(), {.image_size = 20}, kPlain);
  EXPECT_EQ(dataset.load("image", Split::validation, 0, std::vector<int64_t>{0, 1, 2}).shape(), (Shape{3, 20, 20, 3}));
}

TEST(ImageDataset, SaysWhichFileIsDamagedWhenItIsLoaded) {
  const TemporaryFolder folder;
  folder.write("a/bad.jpg", "notes");
  const auto dataset = std::make_shared<ImageDataset>(open_image_folder(folder.path()), ImageOptions{.image_size = 8}, kPlain);
  Loader loader(dataset, {.batch = 1, .threads = 1});
  expect_error<DataError>([&] { loader.at(0); }, {"bad.jpg: is neither"});
}

ImageSourcePtr black_images(int64_t channels, const std::vector<std::string>& class_names) {
  return std::make_shared<ImageArray>(1, 1, channels, std::vector<uint8_t>(static_cast<size_t>(channels)), std::vector<uint8_t>{0},
                                      class_names);
}

/// With three channels its rows were written beyond the tensor of one.
TEST(ImageDataset, RefusesValidationImagesOfOtherChannelsOrClasses) {
  const auto dataset_of = [](const ImageSourcePtr& train, const ImageSourcePtr& validation) {
    ImageDataset({train, validation}, {.image_size = 1}, {{0.5}, {0.25}});
  };
  const auto train = black_images(1, {"cat", "dog"});
  dataset_of(train, black_images(1, {"cat", "dog"}));
  expect_error<UsageError>([&] { dataset_of(train, black_images(3, {"cat", "dog"})); }, {"validation images of 1 channels", "got 3"});
  expect_error<UsageError>([&] { dataset_of(train, black_images(1, {"dog", "cat"})); }, {"class 0 is 'cat' in training and 'dog'"});
  expect_error<UsageError>([&] { dataset_of(train, black_images(1, {"cat"})); }, {"class 1 is 'dog' in training and none"});
}

TEST(ImageDataset, NeedsImagesToTrainOn) {
  expect_error<UsageError>([] { ImageDataset({}, {.image_size = 1}, {{0.5}, {0.25}}); }, {"to train on", "null pointer"});
  expect_error<UsageError>([] { split_by_seed({}, 0.1, 1); }, {"to train on", "null pointer"});
  const ImageArray none(1, 1, 1, {}, {}, {"black"});
  expect_error<UsageError>([&] { measure_normalisation(none, 1, ""); }, {"needs images", "got none"});
}

/// A source of a user's own whose images have a channel more than it says, or fewer bytes than they have pixels.
class WrongImages : public ImageArray {
 public:
  explicit WrongImages(Image image) : ImageArray(1, 1, 3, {0, 0, 0}, {0}, {"black"}), image_(std::move(image)) {}
  Image image(int64_t) const override { return image_; }

 private:
  Image image_;
};

TEST(ImageDataset, RefusesImagesThatAreNotAsTheirSourceSays) {
  for (const Image& wrong : {Image::of_size(2, 2, 4), Image{2, 2, 3, std::vector<uint8_t>(5)}, Image{}}) {
    const auto source = std::make_shared<WrongImages>(wrong);
    const ImageDataset dataset({source, nullptr}, {.image_size = 1}, kPlain);
    expect_error<UsageError>([&] { dataset.load("image", Split::train, 0, std::vector<int64_t>{0}); }, {"3 channels", "image 0"});
    expect_error<UsageError>([&] { measure_normalisation(*source, 1, ""); }, {"3 channels", "image 0"});
  }
}

TEST(Normalisation, IsMeanAndDeviationOfTheTrainingImages) {
  const Normalisation measured = measure_normalisation(*four_images(), 1, "");
  EXPECT_NEAR(measured.mean[0], 0.5, 1e-12);
  const double square = (2 * 127.5 * 127.5 + 2 * 27.5 * 27.5) / 4;
  EXPECT_NEAR(measured.deviation[0], std::sqrt(square) / 255, 1e-12);
}

TEST(Normalisation, OfOneColourHasADeviationThatCanBeDividedBy) {
  const ImageArray black(2, 2, 1, std::vector<uint8_t>(4), {0}, {"black"});
  EXPECT_EQ(measure_normalisation(black, 2, ""), (Normalisation{{0}, {1.0 / 255}}));
}

TEST(Normalisation, IsKeptAndADamagedCopyIsReplaced) {
  const TemporaryFolder cache;
  const auto source = synthetic().train;
  const Normalisation measured = measure_normalisation(*source, 12, cache.path());
  ASSERT_EQ(cache.files(), 1u);
  const auto file = std::filesystem::directory_iterator(cache.path())->path();
  EXPECT_EQ(measure_normalisation(*source, 12, cache.path()), measured);
  for (const char* damaged : {"", "{\"mean\":[1]", "{\"mean\":[1],\"deviation\":[0]}", "[]"}) {
    std::ofstream(file) << damaged;
    EXPECT_EQ(measure_normalisation(*source, 12, cache.path()), measured);
  }
  const std::string whole = read_file(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = whole[at] == '7' ? '8' : '7';  // a digit makes another number, which was taken
    std::ofstream(file) << changed;
    EXPECT_EQ(measure_normalisation(*source, 12, cache.path()), measured) << "byte " << at;
  }
  measure_normalisation(*source, 8, cache.path());
  EXPECT_EQ(cache.files(), 2u);
}

TEST(SplitBySeed, HasEveryImageOnceAndAnotherSplitForAnotherSeed) {
  const auto source = synthetic(100).train;
  std::set<std::string> validation[2], all;
  for (const uint64_t seed : {0, 1}) {
    const ImageSplits splits = split_by_seed({source, nullptr}, 0.1, seed);
    EXPECT_EQ(splits.train->size(), 90);
    ASSERT_EQ(splits.validation->size(), 10);
    for (int64_t i = 0; i < 10; ++i) validation[seed].insert(text_of(splits.validation->image(i)));
    if (seed == 1) continue;
    all = validation[0];
    for (int64_t i = 0; i < 90; ++i) all.insert(text_of(splits.train->image(i)));
    EXPECT_NE(splits.train->identity(), splits.validation->identity());
  }
  EXPECT_EQ(all.size(), 100u);
  EXPECT_NE(validation[0], validation[1]);
}

TEST(SplitBySeed, KeepsTheSplitOfTheFilesAndRefusesAnEmptyOne) {
  const ImageSplits splits = synthetic();
  EXPECT_EQ(split_by_seed(splits, 0.1, 0).validation, splits.validation);
  EXPECT_THROW(split_by_seed({four_images(), nullptr}, 0.1, 0), DataError);
  EXPECT_THROW(split_by_seed({four_images(), nullptr}, 0.9, 0), UsageError);
  EXPECT_EQ(split_by_seed({four_images(), nullptr}, 0, 0).validation->size(), 0);
}

TEST(SyntheticImages, AreAFunctionOfTheSeedWithEveryClassInBothSplits) {
  const ImageSplits splits = synthetic(200), again = synthetic(200);
  std::set<int32_t> classes;
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(splits.train->image(i), again.train->image(i));
    classes.insert(splits.train->label(i));
  }
  EXPECT_EQ(classes.size(), 10u);
  EXPECT_NE(splits.train->image(0), splits.validation->image(0));
  EXPECT_THROW(synthetic_images({.classes = 0}), UsageError);
  EXPECT_THROW(synthetic_images({.noise = 2}), UsageError);
}

/// Of the spectrum of an image's first channel, the strengths of low frequencies, which do not change when the image is shifted.
std::vector<double> strengths(const Image& image) {
  std::vector<double> result;
  for (int64_t down = -5; down <= 5; ++down)
    for (int64_t right = 0; right <= 5; ++right) {
      double real = 0, imaginary = 0;
      for (int64_t y = 0; y < image.height; ++y)
        for (int64_t x = 0; x < image.width; ++x) {
          const double angle = 2 * 3.14159265358979 * (static_cast<double>(down * y + right * x)) / static_cast<double>(image.width);
          real += image.at(y, x)[0] * std::cos(angle);
          imaginary += image.at(y, x)[0] * std::sin(angle);
        }
      result.push_back(down == 0 && right == 0 ? 0 : std::hypot(real, imaginary));
    }
  return result;
}

TEST(SyntheticImages, CanBeToldApartByTheirPatternWhateverTheShiftAndNoise) {
  const ImageSplits splits = synthetic_images({.image_size = 24, .channels = 1, .train_samples = 200, .validation_samples = 100});
  std::vector<std::vector<double>> of_class(10, std::vector<double>(66));
  std::vector<double> count(10);
  for (int64_t i = 0; i < 200; ++i) {
    const auto label = static_cast<size_t>(splits.train->label(i));
    const auto strength = strengths(splits.train->image(i));
    for (size_t k = 0; k < strength.size(); ++k) of_class[label][k] += strength[k];
    ++count[label];
  }
  int right = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const auto strength = strengths(splits.validation->image(i));
    std::vector<double> distance(10);
    for (size_t c = 0; c < 10; ++c)
      for (size_t k = 0; k < strength.size(); ++k) distance[c] += std::pow(strength[k] - of_class[c][k] / count[c], 2);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == splits.validation->label(i);
  }
  EXPECT_GE(right, 90);
}

}  // namespace
}  // namespace sluice::data
