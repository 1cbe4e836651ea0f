#include "training/metrics/bleu.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::training {
namespace {

using Strings = std::vector<std::string>;
using Counts = std::array<int64_t, 4>;

const Strings kHypotheses{"the cat sat on the mat", "There is, in fact, no 3.5% rise.", "It works"};
const Strings kReferences{"the cat is on the mat", "There is in fact no 3.5% increase.", "It works"};

BleuScore sentence(const std::string& hypothesis, const Strings& references) { return sentence_bleu(hypothesis, references); }
BleuScore corpus(const Strings& hypotheses, const Strings& references) { return corpus_bleu(hypotheses, references); }

constexpr double kPrinted = 5e-7;  // half a unit of the sixth decimal place

TEST(Bleu, GivesThePrintedValuesOfSentences) {
  const auto first = sentence(kHypotheses[0], {kReferences[0]});
  EXPECT_EQ(first.matches, (Counts{5, 3, 1, 0}));
  EXPECT_EQ(first.totals, (Counts{6, 5, 4, 3}));
  EXPECT_NEAR(first.precisions[3], 16.6667, 5e-5);
  EXPECT_NEAR(first.score, 37.991784, kPrinted);
  EXPECT_EQ(first.score, corpus({kHypotheses[0]}, {kReferences[0]}).score);
  const auto second = sentence(kHypotheses[1], {kReferences[1]});
  EXPECT_EQ(second.matches, (Counts{8, 4, 1, 0}));
  EXPECT_EQ(second.totals, (Counts{11, 10, 9, 8}));
  EXPECT_EQ(second.precisions[3], 6.25);
  EXPECT_NEAR(second.score, 21.200627, kPrinted);
}

TEST(Bleu, UsesTheOrdersThatASentenceHas) {
  const auto score = sentence(kHypotheses[2], {kReferences[2]});
  EXPECT_EQ(score.matches, (Counts{2, 1, 0, 0}));
  EXPECT_EQ(score.totals, (Counts{2, 1, 0, 0}));
  EXPECT_NEAR(score.score, 100, 1e-12);
  EXPECT_EQ(corpus({kHypotheses[2]}, {kReferences[2]}).score, 0);
}

TEST(Bleu, GivesThePrintedValueOfACorpus) {
  const auto score = corpus(kHypotheses, kReferences);
  EXPECT_EQ(score.matches, (Counts{15, 8, 2, 0}));
  EXPECT_EQ(score.totals, (Counts{19, 16, 13, 11}));
  EXPECT_EQ(score.hypothesis_length, 19);
  EXPECT_EQ(score.reference_length, 17);
  EXPECT_NEAR(score.precisions[3], 4.5455, 5e-5);
  EXPECT_NEAR(score.score, 22.921493, kPrinted);
  const double exact =
      std::exp((std::log(100. * 15 / 19) + std::log(100. * 8 / 16) + std::log(100. * 2 / 13) + std::log(100. / (2. * 11))) / 4);
  EXPECT_EQ(score.score, exact);
}

TEST(Bleu, PunishesShortHypotheses) {
  const auto score = corpus({"a b c d e"}, {"a b c d e f g"});
  EXPECT_EQ(score.brevity_penalty, std::exp(1 - 7. / 5));
  EXPECT_NEAR(score.brevity_penalty, .670320, kPrinted);
  EXPECT_NEAR(score.score, 67.032005, kPrinted);
}

TEST(Bleu, HalvesAMatchOnceMoreForEachOrderWithoutOne) {
  const auto score = corpus({"a x b y c"}, {"a b c d e"});
  EXPECT_EQ(score.precisions, (std::array<double, 4>{60, 100 / 8., 100 / 12., 100 / 16.}));
}

TEST(Bleu, IsZeroWithoutMatchesOrWords) {
  EXPECT_EQ(corpus({"a b c d"}, {"e f g h"}).score, 0);
  EXPECT_EQ(corpus({""}, {"a"}).score, 0);
  EXPECT_EQ(corpus({""}, {"a"}).brevity_penalty, 0);
  EXPECT_EQ(sentence("", {""}).score, 0);
  EXPECT_EQ(sentence("", {""}).brevity_penalty, 1);
  EXPECT_EQ(corpus({}, {}).score, 0);
}

TEST(Bleu, ClipsAtTheReferenceWithMostAndTakesTheClosestLengthTheShorterOnTies) {
  const auto score = sentence("a a a b", {"a a c c c c", "a b"});
  EXPECT_EQ(score.matches, (Counts{3, 2, 0, 0}));
  EXPECT_EQ(score.reference_length, 2);
  const std::vector<Strings> sets{{"a a c c c c"}, {"a b"}};
  const auto corpus_score = corpus_bleu(Strings{"a a a b"}, sets);
  EXPECT_EQ(corpus_score.matches, score.matches);
}

TEST(Bleu, PrintsSacrebleusSignature) {
  EXPECT_EQ(corpus_bleu_signature(), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  EXPECT_EQ(sentence_bleu_signature(2), "nrefs:2|case:mixed|eff:yes|tok:13a|smooth:exp|version:2.6.0");
}

TEST(Bleu, RefusesReferencesThatDoNotFitTheHypotheses) {
  expect_error<UsageError>([] { corpus({"a", "b"}, {"a"}); }, {"2 hypotheses", "got 1"});
  expect_error<UsageError>([] { corpus_bleu(Strings{"a"}, std::vector<Strings>{}); }, {"got none"});
  expect_error<UsageError>([] { sentence("a", {}); }, {"got none"});
}

RC_GTEST_PROP(Bleu, OfACopyIsOneHundred, (uint8_t extra)) {
  std::string text = "w0 w1 w2 w3";
  for (int i = 4; i < 4 + extra % 30; ++i) text += " w" + std::to_string(i % 7);
  RC_ASSERT(std::abs(corpus({text}, {text}).score - 100) < 1e-9);
}

RC_GTEST_PROP(Bleu, TakesAnyBytes, (const Strings& texts)) {
  const auto score = corpus(texts, Strings(texts.rbegin(), texts.rend()));
  RC_ASSERT(score.score >= 0 && score.score < 100 + 1e-9);
}

}  // namespace
}  // namespace sluice::training
