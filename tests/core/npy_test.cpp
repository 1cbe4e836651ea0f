#include "core/file/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/elements.h"
#include "core/file/file.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

/// A file's bytes: version 1.0, a header of this text and padding, and data bytes 0, 1, 2, ...
std::string npy_of(std::string text, size_t data_bytes) {
  text.resize(117, ' ');
  std::string bytes = "\x93NUMPY" + std::string("\1\0v\0", 4) + text + "\n";
  for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

const std::string kGood = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

/// The error's text, or "" when the bytes are accepted.
std::string refusal(const std::string& bytes) {
  try {
    parse_npy_header(bytes, static_cast<int64_t>(bytes.size()), "x.npy");
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Npy, AHeaderOfNumPyGivesItsArray) {
  const std::string bytes = npy_of(kGood, 24);
  const NpyHeader header = parse_npy_header(bytes, static_cast<int64_t>(bytes.size()), "x.npy");
  EXPECT_EQ(header.dtype, DType::f32);
  EXPECT_EQ(header.shape, Shape({2, 3}));
  EXPECT_FALSE(header.is_fortran_order);
  EXPECT_EQ(header.data_begin, 128);
}

TEST(Npy, TheHeaderThatIsWrittenIsThatOfNumPy) {
  EXPECT_EQ(npy_header(DType::f32, {2, 3}), npy_of(kGood, 0));
  EXPECT_EQ(npy_header(DType::f64, {}), npy_of("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 0));
  EXPECT_EQ(npy_header(DType::i64, {2}), npy_of("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 0));
  EXPECT_EQ(npy_header(DType::u8, {0, 7}), npy_of("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 7), }", 0));
}

struct BadNpy {
  const char* what;
  std::string bytes;
  const char* reason;
};

class BadNpyFile : public testing::TestWithParam<BadNpy> {};

TEST_P(BadNpyFile, IsRefusedWithFileAndByte) {
  const std::string message = refusal(GetParam().bytes);
  EXPECT_NE(message.find(GetParam().reason), std::string::npos) << GetParam().what << ": " << message;
  EXPECT_EQ(message.find("x.npy, byte "), 0u) << message;
}

std::string with_descr(const std::string& descr) { return npy_of("{'descr': " + descr + ", 'fortran_order': False, 'shape': (4,), }", 16); }
std::string with_shape(const std::string& shape) {
  return npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }", 16);
}

INSTANTIATE_TEST_SUITE_P(
    List, BadNpyFile,
    testing::Values(
        BadNpy{"nothing", "", "\\x93NUMPY"}, BadNpy{"another file", "PK\3\4 something else", "another kind of file"},
        BadNpy{"magic alone", "\x93NUMPY\1", "cut off"}, BadNpy{"version 4", "\x93NUMPY\4" + std::string(200, ' '), "version 1, 2 or 3"},
        BadNpy{"version 0", "\x93NUMPY" + std::string(200, '\0'), "version 1, 2 or 3"},
        BadNpy{"header longer than the file", "\x93NUMPY" + std::string("\1\0\xff\xff", 4) + std::string(100, ' '), "cut off"},
        BadNpy{"header of 4 GB", "\x93NUMPY" + std::string("\2\0\xff\xff\xff\xff", 6) + std::string(100, ' '), "cut off"},
        BadNpy{"python objects", with_descr("'|O'"), "astype('float32')"}, BadNpy{"big-endian", with_descr("'>f4'"), "newbyteorder('<')"},
        BadNpy{"half floats", with_descr("'<f2'"), "got '<f2'; save a.astype('float32')"},
        BadNpy{"whole numbers that f32 has not", with_descr("'<u4'"), "got '<u4'; save a.astype('int64')"},
        BadNpy{"complex numbers", with_descr("'<c8'"), "got '<c8'; save a.real and a.imag"},
        BadNpy{"texts", with_descr("'<U4'"), "got '<U4'; save numbers"},
        BadNpy{"structured", with_descr("[('a', '<f4')]"), "each of its fields"}, BadNpy{"descr of a number", with_descr("4"), "needs '''"},
        BadNpy{"open quote", npy_of("{'descr': '<f4", 0), "has no end"}, BadNpy{"no dict", npy_of("[1, 2]", 0), "needs '{'"},
        BadNpy{"missing key", npy_of("{'descr': '<f4', 'shape': (4,), }", 16), "got fewer"},
        BadNpy{"unknown key", npy_of("{'more': 1}", 16), "got 'more'"},
        BadNpy{"key twice", npy_of("{'descr': '<f4', 'descr': '<f4', }", 16), "once each"},
        BadNpy{"order that is no truth", npy_of("{'fortran_order': 0, }", 16), "True or False"},
        BadNpy{"text behind the dict", npy_of(kGood + "x", 24), "header's end"},
        BadNpy{"negative extent", with_shape("(-4,)"), "from 0 to"}, BadNpy{"extent of 2^63", with_shape("(9223372036854775808,)"), "2^63"},
        BadNpy{"extent in words", with_shape("(four,)"), "extent"}, BadNpy{"overflow", with_shape("(4294967296, 4294967296)"), "63 bits"},
        BadNpy{"overflow with a zero", with_shape("(0, 4294967296, 4294967296)"), "63 bits"},
        BadNpy{"nine axes", with_shape("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "at most 8 axes"},
        BadNpy{"open shape", npy_of("{'shape': (4,", 16), "extent"}, BadNpy{"shape without commas", with_shape("(2 2)"), "needs ','"},
        BadNpy{"data cut off", npy_of(kGood, 23), "cut off"},
        BadNpy{"huge claim", with_shape("(1000000000000,)"), "needs 4000000000000 bytes"},
        BadNpy{"data left over", npy_of(kGood, 25), "1 bytes follow the array"}));

TEST(Npy, AFileCutAnywhereIsRefused) {
  const std::string whole = npy_of(kGood, 24);
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
}

TEST(Npy, EveryChangedByteIsAcceptedOrADataError) {
  const std::string whole = npy_of(kGood, 24);
  for (size_t at = 0; at < whole.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      EXPECT_NO_THROW(refusal(changed)) << at << " " << value;
    }
}

TEST(Npy, EveryDtypeComesBackBitForBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.npy";
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8})
    for (const Tensor& x : {tensor({{1, 2, 3}, {4, 5, 6}}, dtype), tensor(7, dtype), empty({0, 3}, dtype)}) {
      write_npy(path, x);
      const Tensor back = read_npy(path);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), x.shape());
      EXPECT_EQ(back.to_vector(), x.to_vector());
    }
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Npy, Bf16IsWrittenAsF32AndAViewInItsOwnOrder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.npy";
  write_npy(path, tensor({{1, 2}, {3, 4}}, DType::bf16).transpose(0, 1));
  EXPECT_EQ(read_npy(path).to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
}

TEST(Npy, FortranOrderIsTurnedRound) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy_of("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", 6));
  const Tensor x = read_npy(path);
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 2, 4, 1, 3, 5}));
}

TEST(Npy, BooleansAreBytes) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_npy(folder.write("x.npy", npy_of("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 2))).dtype(), DType::u8);
}

TEST(Npy, AFileThatIsNotThereOrCannotBeWrittenIsNamed) {
  expect_error<DataError>([] { read_npy("/nowhere/x.npy"); }, {"/nowhere/x.npy", "check the path"});
  expect_error<ResourceError>([] { write_npy("/dev/full/x.npy", tensor({1})); }, {"/dev/full"});
}

TEST(Npy, AFailedWriteLeavesTheOldFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.npy";
  write_npy(path, tensor({1, 2}));
  expect_error<UsageError>([&] { write_npy(path, empty({3}, DType::f32, make_device("meta:0"))); }, {"meta"});
  EXPECT_EQ(read_npy(path).to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(folder.files(), 1u);
}

}  // namespace
}  // namespace sluice
