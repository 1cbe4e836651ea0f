#include "training/metrics/chrf.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::training {
namespace {

using Strings = std::vector<std::string>;
constexpr auto kPlusPlus = ChrfUnits::characters_and_words;
constexpr double kPrinted = 5e-7;  // half a unit of the sixth decimal place

const Strings kHypotheses{"the cat sat on the mat", "There is, in fact, no 3.5% rise.", "It works"};
const Strings kReferences{"the cat is on the mat", "There is in fact no 3.5% increase.", "It works"};

ChrfScore sentence(const std::string& hypothesis, const Strings& references, ChrfUnits units = ChrfUnits::characters) {
  return sentence_chrf(hypothesis, references, units);
}

TEST(Chrf, GivesThePrintedValuesOfSentences) {
  EXPECT_NEAR(sentence(kHypotheses[0], {kReferences[0]}).score, 64.577942, kPrinted);
  EXPECT_NEAR(sentence(kHypotheses[1], {kReferences[1]}).score, 49.554148, kPrinted);
  EXPECT_EQ(sentence(kHypotheses[2], {kReferences[2]}).score, 100);
  EXPECT_NEAR(sentence("abc def", {"abc deg"}).score, 59.166667, kPrinted);
  EXPECT_NEAR(sentence("kitten", {"sitting"}).score, 19.025079, kPrinted);
}

TEST(Chrf, CountsWordsToo) {
  EXPECT_NEAR(sentence(kHypotheses[0], {kReferences[0]}, kPlusPlus).score, 66.360671, kPrinted);
  EXPECT_NEAR(sentence(kHypotheses[1], {kReferences[1]}, kPlusPlus).score, 53.910027, kPrinted);
  EXPECT_EQ(sentence(kHypotheses[2], {kReferences[2]}, kPlusPlus).score, 100);
}

TEST(Chrf, GivesThePrintedValuesOfACorpus) {
  EXPECT_NEAR(corpus_chrf(kHypotheses, kReferences).score, 58.733192, kPrinted);
  EXPECT_NEAR(corpus_chrf(kHypotheses, kReferences, kPlusPlus).score, 61.812096, kPrinted);
}

TEST(Chrf, CountsEveryLength) {
  const std::vector<ChrfCounts> expected{{17, 16, 15}, {16, 15, 12}, {15, 14, 10}, {14, 13, 8}, {13, 12, 6}, {12, 11, 4}};
  EXPECT_EQ(sentence(kHypotheses[0], {kReferences[0]}).orders, expected);
}

TEST(Chrf, IsTheFormulaInItsOrderOfOperations) {
  double precision = 0, recall = 0;
  for (const auto& counts : sentence(kHypotheses[0], {kReferences[0]}).orders) {
    precision += static_cast<double>(counts.matches) / static_cast<double>(counts.hypothesis);
    recall += static_cast<double>(counts.matches) / static_cast<double>(counts.reference);
  }
  precision /= 6;
  recall /= 6;
  EXPECT_EQ(sentence(kHypotheses[0], {kReferences[0]}).score, 100 * (5 * precision * recall / (4 * precision + recall)));
}

TEST(Chrf, DropsCountsOfLengthsThatTheReferenceLacks) {
  const auto orders = sentence("abcd", {"ab"}).orders;
  EXPECT_EQ(orders[1], (ChrfCounts{3, 1, 1}));
  EXPECT_EQ(orders[2], ChrfCounts{});
}

TEST(Chrf, CutsOneMarkOffAWordItsEndFirst) {
  const auto words = [](const std::string& text) { return sentence(text, {text}, kPlusPlus).orders[6].reference; };
  EXPECT_EQ(words("end."), 2);
  EXPECT_EQ(words("(start"), 2);
  EXPECT_EQ(words("(both)"), 2);  // "(both" and ")"
  EXPECT_EQ(words("..."), 2);
  EXPECT_EQ(words("."), 1);
  EXPECT_EQ(words("\u00E9\u3002"), 1);
  EXPECT_EQ(sentence("(both )", {"(both)"}, kPlusPlus).orders[6].matches, 1);
}

TEST(Chrf, CountsCodePoints) { EXPECT_EQ(sentence("\u65E5\u672C", {"\u65E5\u672C\u8A9E"}).orders[0], (ChrfCounts{2, 3, 2})); }

TEST(Chrf, TakesTheBestReferenceTheFirstOnTies) {
  EXPECT_EQ(sentence("abc def", {"xyz", "abc deg"}).score, sentence("abc def", {"abc deg"}).score);
  EXPECT_EQ(sentence("abc", {"xyzuv", "uvw"}).orders[0].reference, 5);
}

TEST(Chrf, IsZeroWithoutCommonCharacters) {
  EXPECT_EQ(sentence("abc", {"xyz"}).score, 0);
  EXPECT_EQ(sentence("", {"xyz"}).score, 0);
  EXPECT_EQ(sentence("abc", {""}).score, 0);
  EXPECT_EQ(corpus_chrf(Strings{}, Strings{}).score, 0);
}

TEST(Chrf, PrintsSacrebleusSignature) {
  EXPECT_EQ(chrf_signature(), "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  EXPECT_EQ(chrf_signature(kPlusPlus, 3), "nrefs:3|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0");
}

TEST(Chrf, RefusesReferencesThatDoNotFitTheHypotheses) {
  expect_error<UsageError>([] { corpus_chrf(Strings{"a", "b"}, Strings{"a"}); }, {"2 hypotheses", "got 1"});
  expect_error<UsageError>([] { sentence("a", {}); }, {"got none"});
}

RC_GTEST_PROP(Chrf, OfACopyIsOneHundredForAnyBytes, (const std::string& text)) {
  for (const auto units : {ChrfUnits::characters, kPlusPlus}) {
    const auto score = sentence(text, {text}, units);
    RC_ASSERT(score.orders[0].reference == 0 || std::abs(score.score - 100) < 1e-9);
  }
}

}  // namespace
}  // namespace sluice::training
