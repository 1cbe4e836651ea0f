#include "core/file/hash.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sluice {
namespace {

TEST(Hash, IsXxh3With128BitsInCanonicalOrder) { EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f"); }

RC_GTEST_PROP(Hash, DoesNotDependOnWhereThePiecesAreCut, (const std::vector<std::string>& pieces)) {
  Hash hash;
  std::string whole;
  for (const std::string& piece : pieces) {
    hash.add(piece.data(), piece.size());
    whole += piece;
  }
  RC_ASSERT(hash.text() == hash_of(whole));
}

}  // namespace
}  // namespace sluice
