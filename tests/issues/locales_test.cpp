// A program may have set a locale that writes 1234.5 as 1.234,5: names, keys and digests are the same, and messages stay readable.
#include <gtest/gtest.h>

#include <locale>
#include <string>

#include "core/error.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "layers/model_digest.h"

using namespace sluice;

namespace {

struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

layers::Graph model() {
  layers::Graph graph;
  const auto x = graph.input("x", {2048}), target = graph.input("target", {}, DType::i32);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("logits", layers::Linear(2048, 1000, true, 1.5), x), target}));
  return graph;
}

class Locales : public testing::Test {
 protected:
  ~Locales() override { std::locale::global(before_); }

  const std::string plain_digest_ = layers::model_digest(model());

 private:
  const std::locale before_ = std::locale::global(std::locale(std::locale::classic(), new Commas));
};

TEST_F(Locales, LeaveMessagesAsTheyAre) { EXPECT_EQ(join("needs ", 1234567, ", got ", 1.5), "needs 1234567, got 1.5"); }

TEST_F(Locales, LeaveTheDigestOfAModelAsItIs) { EXPECT_EQ(layers::model_digest(model()), plain_digest_); }

}  // namespace
