// Numbers beside tensors come as doubles, which do not tell integers from 2^53 on apart: ids were compared, filled and counted wrong without a word.
#include <gtest/gtest.h>

#include "core/elements.h"
#include "core/ops/comparison.h"
#include "core/ops/elementwise.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

constexpr int64_t kExact = int64_t{1} << 53;
const std::initializer_list<std::string> kCure = {"exact below 2^53", "tensor(int64_t{...})"};

Tensor ids() { return tensor(std::vector<int64_t>{kExact + 1, kExact}); }

TEST(NumbersBesideIntegers, AreRefusedWhereADoubleDoesNotTellThemApart) {
  for (const int64_t id : {kExact, kExact + 1, -kExact, INT64_MAX}) {
    const auto number = static_cast<double>(id);
    expect_error<UsageError>([&] { equal(ids(), number); }, kCure);
    expect_error<UsageError>([&] { add(ids(), number); }, kCure);
    expect_error<UsageError>([&] { full({2}, number, DType::i64); }, kCure);
  }
}

TEST(NumbersBesideIntegers, AreExactBelowThat) {
  const auto most = static_cast<double>(kExact - 1);
  EXPECT_EQ(full({1}, most, DType::i64).to_vector<int64_t>(), std::vector<int64_t>{kExact - 1});
  EXPECT_EQ(full({1}, -most, DType::i64).to_vector<int64_t>(), std::vector<int64_t>{1 - kExact});
  EXPECT_EQ(equal(add(full({1}, most, DType::i64), -1), most - 1).to_vector<uint8_t>(), std::vector<uint8_t>{1});
}

TEST(NumbersBesideIntegers, AreExactAsTensors) {
  EXPECT_EQ(equal(ids(), tensor(std::vector<int64_t>{kExact + 1})).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(tensor({kExact + 1}, DType::i64).to_vector<int64_t>(), std::vector<int64_t>{kExact + 1});
  EXPECT_EQ(tensor(uint64_t{5}, DType::i64).to_vector<int64_t>(), std::vector<int64_t>{5});
  EXPECT_EQ(tensor(true).dtype(), DType::i32);
  expect_error<UsageError>([] { tensor(uint64_t{1} << 63, DType::i64); }, {"beyond int64_t"});
}

}  // namespace
}  // namespace sluice
