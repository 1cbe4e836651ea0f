#include "core/file/npz.h"

#include <gtest/gtest.h>

#include "core/elements.h"
#include "core/file/file.h"
#include "core/file/zip.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

/// What np.savez_compressed("packed.npz", a=np.zeros((100,), "f4"), b=np.array([True, False])) of numpy 2.4.6 wrote.
constexpr std::string_view kPacked =
    "504b03042d000000080000002100efb97d1bffffffffffffffff05001400612e6e70790100100010020000000000004b000000000000009bec17"
    "ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a8606063a"
    "9a3a0ab50a64032e865130a80000504b03042d000000080000002100ee19bb5dffffffffffffffff05001400622e6e7079010010008200000000"
    "00000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc294e"
    "058a17672416a402f91a463a9a3a0ab50a14002e460600504b01022d032d000000080000002100efb97d1b4b0000001002000005000000000000"
    "0000000000800100000000612e6e7079504b01022d032d000000080000002100ee19bb5d46000000820000000500000000000000000000008001"
    "82000000622e6e7079504b0506000000000200020066000000ff0000000000";

std::string packed_file() {
  std::string bytes;
  for (size_t i = 0; i < kPacked.size(); i += 2) bytes += static_cast<char>(std::stoi(std::string(kPacked.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string plain_file() {
  const TemporaryFolder folder;
  write_npz(folder.path() / "x.npz", {{"a", tensor({{1, 2, 3}, {4, 5, 6}})}, {"b", tensor({0.5}, DType::f64)}});
  return read_file(folder.path() / "x.npz");
}

TEST(Npz, AFileOfSavezCompressedIsRead) {
  const TemporaryFolder folder;
  const auto tensors = read_npz(folder.write("x.npz", packed_file()));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("a").to_vector<float>(), std::vector<float>(100, 0));
  EXPECT_EQ(tensors.at("b").to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0}));
}

TEST(Npz, WhatIsWrittenComesBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.npz";
  write_npz(path, {{"layer/weight", tensor({{1.5, 2}, {3, 4}}).transpose(0, 1)}, {"ids", tensor({1, 2, 3})}, {"none", empty({0, 2})}});
  const auto back = read_npz(path);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back.at("layer/weight").to_vector<float>(), (std::vector<float>{1.5, 3, 2, 4}));
  EXPECT_EQ(back.at("ids").to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(back.at("none").shape(), Shape({0, 2}));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Npz, EqualTensorsGiveEqualBytes) {
  const TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{{"b", full({3}, 2)}, {"a", full({5}, 1)}};
  write_npz(folder.path() / "1.npz", tensors);
  write_npz(folder.path() / "2.npz", tensors);
  EXPECT_EQ(summarize_file(folder.path() / "1.npz"), summarize_file(folder.path() / "2.npz"));
}

TEST(Npz, NoTensorsMakeNoFileThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_error<UsageError>([&] { write_npz(folder.path() / "x.npz", {}); }, {"x.npz", "at least one tensor"});
  EXPECT_EQ(folder.files(), 0u);
}

/// A zero byte ended the name in the file, and 65536 bytes of a name were left out: whoever read it found other arrays or none.
TEST(Npz, NamesThatAZipFileDoesNotHoldAreRefusedBeforeTheFileIsWritten) {
  const TemporaryFolder folder;
  for (const std::string& name : {std::string("a\0b", 3), std::string(65536, 'a'), std::string("\xff")})
    expect_error<UsageError>([&] { write_npz(folder.path() / "x.npz", {{name, tensor({1})}}); }, {"x.npz", "UTF-8", "65535 bytes"});
  EXPECT_EQ(folder.files(), 0u);
  const std::string longest(65531, 'a');
  write_npz(folder.path() / "x.npz", {{longest, tensor({1})}});
  EXPECT_TRUE(read_npz(folder.path() / "x.npz").contains(longest));
}

TEST(Npz, AFileCutAnywhereIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = plain_file();
  for (size_t length = 0; length < whole.size(); ++length)
    expect_error<DataError>([&] { read_npz(folder.write("x.npz", whole.substr(0, length))); }, {"x.npz"});
}

TEST(Npz, EveryFlippedBitIsADataErrorOrChangesNoElement) {
  const TemporaryFolder folder;
  for (const std::string& whole : {plain_file(), packed_file()}) {
    const auto tensors = read_npz(folder.write("x.npz", whole));
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      try {
        for (const auto& [key, x] : read_npz(folder.write("x.npz", bytes))) {
          if (!tensors.contains(key)) continue;  // a bit of its name
          EXPECT_EQ(x.to_vector(), tensors.at(key).to_vector()) << "bit " << bit;
        }
      } catch (const DataError&) {
      }
    }
  }
}

TEST(Npz, OtherMembersAreRefusedByName) {
  const TemporaryFolder folder;
  write_zip(folder.path() / "x.npz", {{"notes.txt", {"hello"}}});
  expect_error<DataError>([&] { read_npz(folder.path() / "x.npz"); }, {"x.npz", "member 'notes.txt'", "np.savez"});
  write_zip(folder.path() / "y.npz", {{"a.npy", {"hello"}}});
  expect_error<DataError>([&] { read_npz(folder.path() / "y.npz"); }, {"y.npz, array 'a', byte 0"});
}

TEST(Npz, AFileThatIsNotThereOrCannotBeWrittenIsNamed) {
  expect_error<DataError>([] { read_npz("/nowhere/x.npz"); }, {"/nowhere/x.npz", "check the path"});
  expect_error<ResourceError>([] { write_npz("/dev/full/x.npz", {{"a", tensor({1})}}); }, {"/dev/full"});
}

}  // namespace
}  // namespace sluice
