#include "data/idx.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "expect_error.h"
#include "image_files.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

const std::string kTwoImages{"\1\2\3\4\5\6\7\10\11\12\13\14", 12};

void write_set(const TemporaryFolder& folder, const std::string& set, const std::string& labels) {
  folder.write(set + "-images-idx3-ubyte", idx_bytes({2, 2, 3}, kTwoImages));
  folder.write(set + "-labels-idx1-ubyte", idx_bytes({2}, labels));
}

RC_GTEST_PROP(Idx, ComesBackAsItWasPlainAndPacked, ()) {
  std::vector<uint32_t> axes;
  uint32_t elements = 1;
  for (int left = *rc::gen::inRange(1, 5); left > 0; --left) elements *= axes.emplace_back(*rc::gen::inRange<uint32_t>(1, 8));
  const auto bytes = *rc::gen::container<std::string>(elements, rc::gen::arbitrary<char>());
  for (const auto& file : {idx_bytes(axes, bytes), gzip(idx_bytes(axes, bytes))}) {
    const IdxArray array = parse_idx("a", file);
    RC_ASSERT(array.bytes == bytes);
    RC_ASSERT(std::equal(axes.begin(), axes.end(), array.shape.begin(), array.shape.end()));
  }
}

TEST(Idx, CutOffAnywhereIsAnErrorThatNamesTheFile) {
  const std::string plain = idx_bytes({2, 2, 3}, kTwoImages), packed = gzip(plain);
  for (const auto& whole : {plain, packed})
    for (size_t length = 0; length < whole.size(); ++length)
      expect_error<DataError>([&] { parse_idx("dir/a", whole.substr(0, length)); }, {"dir/a: "});
  expect_error<DataError>([&] { parse_idx("a", plain.substr(0, 20)); }, {"needs 28 bytes in all, got 20", "cut off"});
  expect_error<DataError>([&] { parse_idx("a", packed.substr(0, packed.size() - 1)); }, {"gzip", "cut off at byte"});
}

TEST(Idx, OfAnotherKindOrCountSaysWhichByteIsWrong) {
  expect_error<DataError>([] { parse_idx("a", "\x89PNG\r\n\x1a\n"); }, {"a: is no IDX file"});
  expect_error<DataError>([] { parse_idx("a", idx_bytes({1}, "1234", 0x0D)); }, {"byte 2", "got 13"});
  expect_error<DataError>([] { parse_idx("a", idx_bytes({}, "")); }, {"byte 3", "got 0"});
  expect_error<DataError>([] { parse_idx("a", idx_bytes({2}, "123")); }, {"needs 10 bytes in all, got 11"});
  expect_error<DataError>([] { parse_idx("a", idx_bytes({5, 0}, "")); }, {"byte 8", "axis of 0"});
  expect_error<DataError>([] { parse_idx("a", gzip(idx_bytes({2}, "12")) + "more"); }, {"4 bytes follow"});
}

TEST(Idx, ThatClaimsTooMuchIsRefused) {
  expect_error<DataError>([] { parse_idx("a", idx_bytes({1, ~0u, ~0u, ~0u}, "")); }, {"byte 12 claims an axis of 4294967295"});
  expect_error<DataError>([] { parse_idx("a", idx_bytes({1 << 30}, "")); }, {"needs 1073741832 bytes in all, got 8"});
  expect_error<DataError>([] { parse_idx("a", gzip(idx_bytes({4}, std::string(1 << 24, 'x')))); }, {"more than the 12 bytes"});
}

TEST(IdxFolder, HasImagesLabelsAndBothSplits) {
  const TemporaryFolder folder;
  write_set(folder, "train", {1, 9});
  folder.write("t10k-images.idx3-ubyte.gz", gzip(idx_bytes({1, 2, 3}, kTwoImages.substr(6))));
  folder.write("t10k-labels.idx1-ubyte.gz", gzip(idx_bytes({1}, "\4")));
  const ImageSplits splits = open_idx(folder.path());
  EXPECT_EQ(splits.train->size(), 2);
  EXPECT_EQ(splits.train->class_names(), numbered_classes(10));
  EXPECT_EQ(splits.train->label(1), 9);
  EXPECT_EQ(splits.train->image(1), (Image{2, 3, 1, {7, 8, 9, 10, 11, 12}}));
  EXPECT_EQ(splits.validation->label(0), 4);
  EXPECT_EQ(splits.validation->image(0), splits.train->image(1));
}

TEST(IdxFolder, HasNoValidationWhereTheFilesHaveNone) {
  const TemporaryFolder folder;
  write_set(folder, "train", {0, 1});
  EXPECT_EQ(open_idx(folder.path()).validation, nullptr);
}

/// With the labels alone a part of the training images was validated on, and nobody was told.
TEST(IdxFolder, NeedsTheValidationImagesThatLabelsAreThereFor) {
  const TemporaryFolder folder;
  write_set(folder, "train", {0, 1});
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(idx_bytes({1}, "\1")));
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"lacks the file t10k-images-idx3-ubyte"});
}

TEST(IdxFolder, TakesClassNamesFromTheCallOrAFile) {
  const TemporaryFolder folder;
  write_set(folder, "train", {0, 1});
  EXPECT_EQ(open_idx(folder.path(), {"a", "b"}).train->class_names(), (std::vector<std::string>{"a", "b"}));
  folder.write("classes.txt", "cat\r\ndog\nowl\n\n");
  EXPECT_EQ(open_idx(folder.path()).train->class_names(), (std::vector<std::string>{"cat", "dog", "owl"}));
  folder.write("classes.txt",
               "\xEF\xBB\xBF"
               "cat\ndog\n");
  EXPECT_EQ(open_idx(folder.path()).train->class_names(), (std::vector<std::string>{"cat", "dog"}));
}

TEST(IdxFolder, NamesFileAndByteOfALabelWithoutAClass) {
  const TemporaryFolder folder;
  write_set(folder, "train", {0, 3});
  expect_error<DataError>([&] { open_idx(folder.path(), {"a", "b", "c"}); }, {"train-labels-idx1-ubyte: byte 9 is label 3", "0..2"});
  write_set(folder, "t10k", {4, 0});
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"t10k-labels-idx1-ubyte: byte 8 is label 4", "0..3"});
}

TEST(IdxFolder, NamesALinkThatLeadsBackToItself) {
  const TemporaryFolder folder;
  for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "classes.txt"}) {
    const auto link = folder.path() / name;
    std::filesystem::create_symlink(link, link);
    expect_error<DataError>([&] { open_idx(folder.path()); }, {link.string() + ": cannot be looked up: ", "point it elsewhere"});
    std::filesystem::remove(link);
    write_set(folder, "train", {1, 9});
  }
}

TEST(IdxFolder, NamesWhatIsMissingOrDoesNotMatch) {
  const TemporaryFolder folder;
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"lacks the file train-images-idx3-ubyte"});
  write_set(folder, "train", {0, 1, 1});
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"train-labels", "needs 10 bytes"});
  folder.write("train-labels-idx1-ubyte", idx_bytes({3}, "\1\1\1"));
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"has 3 labels for 2 images", "train-images"});
  folder.write("train-images-idx3-ubyte", idx_bytes({3}, "\1\1\1"));
  expect_error<DataError>([&] { open_idx(folder.path()); }, {"train-images", "3 or 4 axes, got 1"});
}

}  // namespace
}  // namespace sluice::data
