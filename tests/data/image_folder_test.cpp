#include "data/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "expect_error.h"
#include "image_files.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

const Image kImage = smooth_image(6, 5, 3);

TEST(ImageFolder, NumbersClassesByNameAndReadsBothKinds) {
  const TemporaryFolder folder;
  folder.write("dog/b.PNG", encode_png(kImage));
  folder.write("cat/a.jpeg", encode_jpeg(kImage));
  folder.write("dog/more/c.png", encode_png(kImage));
  folder.write(".cache/x.txt", "hidden");
  folder.write("cat/.hidden.txt", "hidden");
  const ImageFolder images(folder.path());
  EXPECT_EQ(images.class_names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images.label(0), 0);
  EXPECT_EQ(images.label(2), 1);
  EXPECT_EQ(images.image(0).width, 5);
  EXPECT_EQ(images.image(1), kImage);
}

TEST(ImageFolder, TakesTheSplitsThatAreThere) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "train/b/1.png", "val/a/1.png", "val/b/2.png"}) folder.write(name, encode_png(kImage));
  const ImageSplits splits = open_image_folder(folder.path());
  EXPECT_EQ(splits.train->size(), 2);
  EXPECT_EQ(splits.validation->size(), 2);
  EXPECT_EQ(open_image_folder(folder.path() / "train").validation, nullptr);
  folder.write("val/c/1.png", encode_png(kImage));
  expect_error<DataError>([&] { open_image_folder(folder.path()); }, {"val: needs the classes of the training images", "'c'"});
}

void write_images(const TemporaryFolder& folder, std::initializer_list<std::string> names) {
  for (const auto& name : names) folder.write(name, encode_png(kImage));
}

TEST(ImageFolder, TakesTheTestImagesToValidateWhereThereAreNoOthersAndLeavesFilesBesideTheSplitsOut) {
  const TemporaryFolder folder;
  write_images(folder, {"train/a/1.png", "test/a/1.png", "test/a/2.png", "notes.png", ".cache/1.png"});
  EXPECT_EQ(open_image_folder(folder.path()).validation->size(), 2);
  write_images(folder, {"valid/a/1.png"});
  EXPECT_EQ(open_image_folder(folder.path()).validation->size(), 1);
}

/// A class called train was once all that was trained on, without a word of its siblings.
TEST(ImageFolder, RefusesAnotherFolderBesideTrainForThatMayBeAClass) {
  for (const char* of_train : {"train/1.png", "train/steam/1.png"}) {
    const TemporaryFolder folder;
    write_images(folder, {of_train, "bus/1.png", "val/a/1.png"});
    expect_error<DataError>([&] { open_image_folder(folder.path()); }, {(folder.path() / "bus").string() + ": beside the folder train",
                                                                        "if train is a class, rename its folder", "else move bus away"});
  }
}

TEST(ImageFolder, RefusesTwoFoldersOfValidationImages) {
  const TemporaryFolder folder;
  write_images(folder, {"train/a/1.png", "val/a/1.png", "validation/a/1.png"});
  expect_error<DataError>([&] { open_image_folder(folder.path()); },
                          {folder.path().string() + ": needs one folder of validation images, got val and validation", "move one"});
}

TEST(ImageFolder, NamesALinkThatLeadsBackToItself) {
  for (const char* name : {"train", "val", "train/b", "train/a/2.png"}) {
    const TemporaryFolder folder;
    if (name != std::string("train")) write_images(folder, {"train/a/1.png"});
    const auto link = folder.path() / name;
    std::filesystem::create_symlink(link, link);
    expect_error<DataError>([&] { open_image_folder(folder.path()); }, {link.string() + ": cannot be looked up: ", "point it elsewhere"});
  }
}

/// A part of the training images was validated on where the validation images were on a disk that was not there.
TEST(ImageFolder, NamesALinkToNothingInThePlaceOfASplit) {
  for (const char* name : {"train", "val", "test"}) {
    const TemporaryFolder folder;
    folder.write("train/a/1.png", encode_png(kImage));
    std::filesystem::remove_all(folder.path() / name);
    std::filesystem::create_symlink("/proc/nothing", folder.path() / name);
    expect_error<DataError>([&] { open_image_folder(folder.path()); }, {(folder.path() / name).string(), "not there", "mount"});
  }
}

TEST(ImageFolder, NamesAnEmptyClass) {
  const TemporaryFolder folder;
  folder.write("a/1.png", encode_png(kImage));
  std::filesystem::create_directory(folder.path() / "b");
  expect_error<DataError>([&] { ImageFolder images(folder.path()); }, {(folder.path() / "b").string() + ": this class has no images"});
}

/// Its images were once left out without a word.
TEST(ImageFolder, RefusesALinkedFolderAndTakesALinkedImage) {
  const TemporaryFolder folder, elsewhere;
  folder.write("a/1.png", encode_png(kImage));
  elsewhere.write("more/2.png", encode_png(kImage));
  std::filesystem::create_symlink(elsewhere.path() / "more" / "2.png", folder.path() / "a" / "2.png");
  EXPECT_EQ(ImageFolder(folder.path()).size(), 2);
  std::filesystem::create_directory_symlink(elsewhere.path() / "more", folder.path() / "a" / "more");
  expect_error<DataError>([&] { ImageFolder images(folder.path()); }, {"a/more: is a link to a folder", "put the folder itself here"});
}

TEST(ImageFolder, NamesAFileThatIsNoImage) {
  const TemporaryFolder folder;
  folder.write("a/1.png", encode_png(kImage));
  const auto notes = folder.write("a/notes.txt", "notes");
  expect_error<DataError>([&] { ImageFolder images(folder.path()); }, {notes.string() + ": needs an image", "remove it"});
  std::filesystem::remove(notes);
  const auto stray = folder.write("README", "notes");
  expect_error<DataError>([&] { ImageFolder images(folder.path()); }, {stray.string() + ": needs a folder a class"});
}

TEST(ImageFolder, NamesAFileThatOnlyLooksLikeAImageOrIsCutWhenItIsRead) {
  const TemporaryFolder folder;
  const auto notes = folder.write("a/notes.png", "notes");
  const std::string jpeg = encode_jpeg(smooth_image(64, 64, 3));
  const auto half = folder.write("b/half.jpg", jpeg.substr(0, jpeg.size() / 2));
  const ImageFolder images(folder.path());
  expect_error<DataError>([&] { images.image(0); }, {notes.string() + ": is neither"});
  expect_error<DataError>([&] { images.image(1); }, {half.string() + ": is no whole, sound JPEG"});
}

TEST(ImageFolder, ThatIsMissingOrEmptyIsNamed) {
  const TemporaryFolder folder;
  expect_error<DataError>([&] { ImageFolder images(folder.path()); }, {folder.path().string() + ": is empty"});
  expect_error<DataError>([&] { open_image_folder(folder.path() / "nowhere"); }, {"nowhere: cannot read the folder"});
}

TEST(ImageFolder, ThatIsHugeInOneFileIsRefusedUnread) {
  const TemporaryFolder folder;
  std::filesystem::resize_file(folder.write("a/huge.png", ""), uintmax_t{1} << 40);
  expect_error<DataError>([&] { ImageFolder(folder.path()).image(0); }, {"huge.png: has 1099511627776 bytes"});
}

TEST(ImageFolder, HasAnotherIdentityWhenAFileIsAnother) {
  const TemporaryFolder folder;
  folder.write("a/1.png", encode_png(kImage));
  const std::string before = ImageFolder(folder.path()).identity();
  EXPECT_EQ(ImageFolder(folder.path()).identity(), before);
  folder.write("a/2.png", encode_png(kImage));
  EXPECT_NE(ImageFolder(folder.path()).identity(), before);
}

}  // namespace
}  // namespace sluice::data
