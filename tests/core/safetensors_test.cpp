#include "core/file/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/file/file.h"

namespace sluice {
namespace {

/// A file's bytes from its header's text and as many data bytes as given.
std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\1');
}

/// The error's text, or "" when the bytes are accepted.
std::string refusal(const std::string& bytes) {
  try {
    parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()), "x.safetensors");
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

std::string refusal(const std::string& header, size_t data_bytes) { return refusal(file_of(header, data_bytes)); }

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";

TEST(Safetensors, GoodHeaderGivesItsTensors) {
  const std::string bytes = file_of(kGood, 11);
  const auto header = parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()), "x");
  EXPECT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors.at("b").dtype, DType::u8);
  EXPECT_EQ(header.tensors.at("b").begin, 8);
  EXPECT_EQ(header.data_begin, static_cast<int64_t>(8 + kGood.size()));
}

struct BadHeader {
  const char* what;
  std::string header;
  size_t data_bytes;
  const char* reason;
};

class BadSafetensors : public testing::TestWithParam<BadHeader> {};

TEST_P(BadSafetensors, IsRefusedWithFileAndByte) {
  const std::string message = refusal(GetParam().header, GetParam().data_bytes);
  EXPECT_NE(message.find(GetParam().reason), std::string::npos) << GetParam().what << ": " << message;
  EXPECT_NE(message.find("x.safetensors"), std::string::npos);
  EXPECT_NE(message.find("byte "), std::string::npos);
}

std::string tensor(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

INSTANTIATE_TEST_SUITE_P(
    List, BadSafetensors,
    testing::Values(
        BadHeader{"no object", "[]", 0, "begins with '{'"}, BadHeader{"bad UTF-8", "{\"\xff\":{}}", 0, "JSON"},
        BadHeader{"bad JSON", "{\"a\":}", 0, "JSON"}, BadHeader{"junk after the object", "{}x", 0, "JSON"},
        BadHeader{"zero byte", std::string("{}\0x", 4), 0, "zero byte"},
        BadHeader{"deep", tensor(R"("shape":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}})"), 0, "nested"},
        BadHeader{"duplicate name",
                  R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1, "twice"},
        BadHeader{"duplicate field", tensor(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, "twice"},
        BadHeader{"duplicate metadata", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice"},
        BadHeader{"metadata number", R"({"__metadata__":{"a":1}})", 0, "number"},
        BadHeader{"metadata list", R"({"__metadata__":{"a":[]}})", 0, "array"},
        BadHeader{"metadata text", R"({"__metadata__":"a"})", 0, "string"},
        BadHeader{"unknown dtype", tensor(R"("dtype":"F8","shape":[1],"data_offsets":[0,1])"), 1, "F8"},
        BadHeader{"half floats", tensor(R"("dtype":"F16","shape":[1],"data_offsets":[0,2])"), 2, "got 'F16'; save it as one of those"},
        BadHeader{"unknown field", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1)"), 1, "more"},
        BadHeader{"missing field", tensor(R"("dtype":"U8","shape":[1])"), 1, "got less"},
        BadHeader{"negative", tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1, "negative"},
        BadHeader{"float", tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1, "integers"},
        BadHeader{"exponent", tensor(R"("dtype":"U8","shape":[1e3],"data_offsets":[0,1])"), 1, "integers"},
        BadHeader{"2^63", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808])"), 1, "fit"},
        BadHeader{"2^64", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616])"), 1, "integers"},
        BadHeader{"an offset that ends 63 bits",
                  tensor(R"("dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807])"), 0, "fit"},
        BadHeader{"data that end 63 bits", tensor(R"("dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807])"),
                  1, "fit"},
        BadHeader{"one offset", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1, "begin <= end"},
        BadHeader{"three offsets", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1, "begin <= end"},
        BadHeader{"begin > end", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "begin <= end"},
        BadHeader{"overflow", tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), 4, "63 bits"},
        BadHeader{"overflow with a zero", tensor(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), 0, "63 bits"},
        BadHeader{"rank 9", tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1, "at most 8"},
        BadHeader{"bytes", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "needs 8 bytes"},
        BadHeader{"overlap", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  3, "overlap"},
        BadHeader{"hole", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 3,
                  "hole"},
        BadHeader{"first not 0", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2, "hole"},
        BadHeader{"trailing bytes", kGood, 12, "follow the last tensor"}, BadHeader{"cut data", kGood, 10, "cut off"},
        BadHeader{"huge claim", tensor(R"("dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000])"), 1, "cut off"},
        BadHeader{"empty tensor inside another",
                  R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", 4,
                  "overlap"}));

TEST(Safetensors, TensorWithoutElementsMayStandAtABoundary) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})", 4), "");
}

TEST(Safetensors, HeaderLengthOutsideTheFileIsRefused) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{100'000'001}, ~uint64_t{0}, uint64_t{12}}) {
    std::string bytes = file_of("{}", 9);
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_NE(refusal(bytes), "") << length;
  }
  EXPECT_NE(refusal("1234567"), "");
}

TEST(Safetensors, FileCutAnywhereIsRefused) {
  const std::string whole = file_of(kGood, 11);
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
}

TEST(Safetensors, EveryChangedByteIsAcceptedOrADataError) {
  const std::string whole = file_of(kGood, 11);
  for (size_t at = 0; at < whole.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      EXPECT_NO_THROW(refusal(changed)) << at << " " << value;
    }
}

TEST(Safetensors, MoreThanAMillionNamesAreRefused) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i)
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_NE(refusal(header + "}", 0).find("1000000"), std::string::npos);
}

class SafetensorsOnDisk : public testing::Test {
 protected:
  SafetensorsOnDisk() : path_(std::filesystem::temp_directory_path() / join("safetensors-test-", getpid())) {}
  ~SafetensorsOnDisk() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(SafetensorsOnDisk, EveryDtypeComesBackBitForBit) {
  std::map<std::string, Tensor> tensors;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    tensors[std::string(name_of(dtype))] = tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}, dtype);
  tensors["none"] = empty({0, 3});
  tensors["view"] = tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1);
  write_safetensors(path_, tensors, {{"key", "value"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("key"), "value");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(file.read(name).to_vector(), tensor.to_vector()) << name;
}

TEST_F(SafetensorsOnDisk, AllTensorsAreReadAtOnceByName) {
  write_safetensors(path_, {{"a", tensor_of({1, 2}, {2})}, {"b", tensor_of({3}, {1, 1}, DType::i64)}});
  const auto tensors = read_safetensors(path_);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("a").to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(tensors.at("b").dtype(), DType::i64);
  EXPECT_EQ(tensors.at("b").shape(), Shape({1, 1}));
}

/// It was cut off before the first tensor was looked at.
TEST_F(SafetensorsOnDisk, AFailedWriteLeavesTheOldFile) {
  write_safetensors(path_, {{"a", full({2}, 1)}});
  const std::map<std::string, Tensor> other = {{"a", full({2}, 2)}, {"b", empty({3}, DType::f32, make_device("meta:0"))}};
  EXPECT_THROW(write_safetensors(path_, other), UsageError);
  EXPECT_EQ(read_safetensors(path_).at("a").to_vector(), (std::vector<double>{1, 1}));
  for (const auto& file : std::filesystem::directory_iterator(path_.parent_path()))
    EXPECT_FALSE(file.path() != path_ && file.path().string().starts_with(path_.string())) << file.path();
}

TEST_F(SafetensorsOnDisk, EqualTensorsGiveEqualFiles) {
  const std::map<std::string, Tensor> tensors = {{"b", full({3}, 2)}, {"a", full({5}, 1)}};
  const FileSummary first = write_safetensors(path_, tensors);
  EXPECT_EQ(write_safetensors(path_, tensors), first);
  EXPECT_EQ(summarize_file(path_), first);
}

TEST_F(SafetensorsOnDisk, EveryFlippedBitChangesTheSummary) {
  const FileSummary whole = write_safetensors(path_, {{"a", full({5}, 1)}});
  std::string bytes = read_file(path_);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(hash_of(bytes), whole.hash) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST_F(SafetensorsOnDisk, OtherShapeThanAskedNamesBoth) {
  write_safetensors(path_, {{"a", full({5}, 1)}});
  try {
    SafetensorsFile(path_).read("a", full({2, 3}, 0));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("[2, 3]"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("[5]"), std::string::npos);
  }
}

TEST(FileWriter, FullDiskIsAResourceErrorWithPathAndCure) {
  try {
    FileWriter file("/dev/full");
    const std::string bytes(1 << 16, 'x');
    file.write(bytes.data(), bytes.size());
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("free some disk space"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice
