#include "data/cifar.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

/// A record whose planes hold red, red + 1, red + 2, but for its second pixel: 201, 202, 203.
std::string record(const std::string& labels, uint8_t red) {
  std::string bytes = labels;
  for (int c = 0; c < 3; ++c) {
    std::string plane(1024, static_cast<char>(red + c));
    plane[1] = static_cast<char>(201 + c);
    bytes += plane;
  }
  return bytes;
}

TEST(Cifar, TenHasItsBatchesOneAfterTheOtherAndItsTestFile) {
  const TemporaryFolder folder;
  folder.write("data_batch_1.bin", record("\7", 10) + record("\2", 20));
  folder.write("data_batch_2.bin", record({9}, 30) + record(std::string(1, '\0'), 40));
  folder.write("test_batch.bin", record("\3", 50));
  folder.write("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const ImageSplits splits = open_cifar(folder.path());
  ASSERT_EQ(splits.train->size(), 4);
  EXPECT_EQ(splits.train->label(2), 9);
  EXPECT_EQ(splits.train->class_names()[9], "truck");
  const Image image = splits.train->image(2);
  EXPECT_EQ(image.height, 32);
  EXPECT_EQ((std::vector<uint8_t>{image.pixels.begin(), image.pixels.begin() + 6}), (std::vector<uint8_t>{30, 31, 32, 201, 202, 203}));
  EXPECT_EQ(splits.validation->size(), 1);
  EXPECT_EQ(splits.validation->label(0), 3);
}

TEST(Cifar, HundredHasFineAndCoarseLabels) {
  const TemporaryFolder folder;
  folder.write("train.bin", record("\x13\x63", 10));
  EXPECT_EQ(open_cifar(folder.path()).train->label(0), 99);
  EXPECT_EQ(open_cifar(folder.path()).train->class_names().size(), 100u);
  EXPECT_EQ(open_cifar(folder.path(), true).train->label(0), 19);
  EXPECT_EQ(open_cifar(folder.path(), true).train->class_names().size(), 20u);
  EXPECT_EQ(open_cifar(folder.path()).validation, nullptr);
}

TEST(Cifar, NamesFileAndByteOfALabelOutOfRange) {
  const TemporaryFolder folder;
  folder.write("data_batch_1.bin", record("\1", 0) + record("\12", 0));
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"data_batch_1.bin: byte 3073 is label 10", "0..9"});
  const TemporaryFolder hundred;
  hundred.write("train.bin", record("\1\x64", 0));
  expect_error<DataError>([&] { open_cifar(hundred.path()); }, {"train.bin: byte 1 is label 100", "0..99"});
}

TEST(Cifar, ThatIsCutOffOrOfAnotherCountIsRefused) {
  const TemporaryFolder folder;
  const std::string two = record("\1", 0) + record("\2", 0);
  folder.write("data_batch_1.bin", two.substr(0, 5000));
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"data_batch_1.bin: needs records of 3073 bytes, got 5000"});
  folder.write("data_batch_1.bin", "");
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"data_batch_1.bin", "got 0 bytes"});
  folder.write("data_batch_1.bin", two);
  folder.write("data_batch_2.bin", two.substr(0, 3073));
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"data_batch_2.bin: has 1 images", "data_batch_1.bin has 2"});
}

/// Only the first batch was once trained on, without a word.
TEST(Cifar, NamesABatchThatIsMissingBetweenOthers) {
  const TemporaryFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_3.bin", "data_batch_4.bin"}) folder.write(name, record("\1", 0));
  expect_error<DataError>([&] { open_cifar(folder.path()); },
                          {folder.path().string() + ": lacks data_batch_2.bin, but has data_batch_3.bin", "get the missing file"});
  folder.write("data_batch_2.bin", record("\1", 0));
  EXPECT_EQ(open_cifar(folder.path()).train->size(), 4);
  folder.write("data_batch_5.bin", record("\1", 0));
  folder.write("data_batch_6.bin", record("\1", 0));
  EXPECT_EQ(open_cifar(folder.path()).train->size(), 6);
  std::filesystem::remove(folder.path() / "data_batch_1.bin");
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"lacks data_batch_1.bin, but has data_batch_2.bin"});
}

TEST(Cifar, NamesALinkThatLeadsBackToItself) {
  const TemporaryFolder folder;
  for (const char* name : {"train.bin", "test.bin", "fine_label_names.txt", "data_batch_1.bin"}) {
    const auto link = folder.path() / name;
    std::filesystem::create_symlink(link, link);
    expect_error<DataError>([&] { open_cifar(folder.path()); }, {link.string() + ": cannot be looked up: ", "point it elsewhere"});
    std::filesystem::remove(link);
    folder.write("train.bin", record("\1\1", 0));
  }
}

TEST(Cifar, FolderWithoutItsFilesOrWithOtherNamesIsRefused) {
  const TemporaryFolder folder;
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {folder.path().string(), "neither data_batch_1.bin"});
  folder.write("data_batch_1.bin", record("\1", 0));
  EXPECT_THROW(open_cifar(folder.path(), true), UsageError);
  folder.write("batches.meta.txt", "cat\ndog\n");
  expect_error<DataError>([&] { open_cifar(folder.path()); }, {"batches.meta.txt: needs 10 class names, got 2"});
}

}  // namespace
}  // namespace sluice::data
