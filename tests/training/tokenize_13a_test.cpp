#include "training/metrics/tokenize_13a.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "training/metrics/ngrams.h"

namespace sluice::training {
namespace {

std::string joined(const std::vector<std::string>& tokens) {
  std::string text;
  for (const auto& token : tokens) text += (text.empty() ? "" : " ") + token;
  return text;
}

std::string tokens_of(std::string_view line) { return joined(tokenize_13a(line)); }

TEST(Tokenize13a, CutsStopsAndCommasUnlessBetweenDigits) {
  EXPECT_EQ(tokens_of("wait..."), "wait . . .");
  EXPECT_EQ(tokens_of("3.,4"), "3 . , 4");
  EXPECT_EQ(tokens_of("1,000."), "1,000 .");
  EXPECT_EQ(tokens_of("no.3"), "no . 3");
  EXPECT_EQ(tokens_of("e.g. $5"), "e . g . $ 5");
}

TEST(Tokenize13a, CutsDashesAfterDigitsOnly) {
  EXPECT_EQ(tokens_of("5-6"), "5 - 6");
  EXPECT_EQ(tokens_of("1--2"), "1 - -2");
  EXPECT_EQ(tokens_of("a-1"), "a-1");
}

TEST(Tokenize13a, CutsEveryAsciiSymbolButFour) {
  for (char c = '!'; c <= '~'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(c))) continue;
    const bool stays = c == '\'' || c == '-';
    EXPECT_EQ(tokens_of(std::string("a") + c + "b"), stays ? std::string("a") + c + "b" : std::string("a ") + c + " b") << c;
  }
}

TEST(Tokenize13a, ReadsEntitiesOnceInTheirOrder) {
  EXPECT_EQ(tokens_of("&quot;a&quot; &amp; &lt;b&gt;"), "\" a \" & < b >");
  EXPECT_EQ(tokens_of("&amp;lt;"), "<");
  EXPECT_EQ(tokens_of("&amp;quot;"), "& quot ;");
}

TEST(Tokenize13a, RemovesSkippedAndJoinsBrokenLines) {
  EXPECT_EQ(tokens_of("a<skipped>b"), "ab");
  EXPECT_EQ(tokens_of("hyphen-\nated line\nend \n"), "hyphenated line end");
  EXPECT_EQ(tokens_of("ends with-\n"), "ends with-");
}

TEST(Tokenize13a, KeepsTypographicQuotesAndCharactersWithoutSpaces) {
  EXPECT_EQ(tokens_of("\u201Chier\u201D \u65E5\u672C\u8A9E\u3002"), "\u201Chier\u201D \u65E5\u672C\u8A9E\u3002");
}

TEST(Tokenize13a, SplitsAtUnicodeWhiteSpace) {
  EXPECT_EQ(tokens_of("a\u00A0b\u3000c\u2009d\u200Ae\u202Ff\u2028g\u1680h\u0085i\x1Cj"), "a b c d e f g h i j");
  EXPECT_EQ(tokens_of("a\u200Bb"), "a\u200Bb");  // zero-width space is none
  EXPECT_EQ(tokens_of(""), "");
  EXPECT_EQ(tokens_of(" \t\u2003 "), "");
}

RC_GTEST_PROP(Tokenize13a, TakesAnyBytesAndLosesNoneButWhiteSpace, (const std::string& line)) {
  std::string all;
  for (const auto& token : tokenize_13a(line)) {
    RC_ASSERT(!token.empty());
    RC_ASSERT(split_white_space(token).size() == 1u);
    all += token;
  }
  if (line.find_first_of("&<\n") != std::string::npos) return;  // entities, <skipped> and line ends become something else
  std::string expected;
  for (const auto piece : split_white_space(line)) expected += piece;
  RC_ASSERT(all == expected);
}

TEST(Characters, AreCodePointsWithoutWhiteSpace) {
  const Units units = characters("a \u00E9\u3000\u65E5\U0001F600 ");
  EXPECT_EQ(units.size(), 4);
  EXPECT_EQ(units.ngram(1, 2), "\u00E9\u65E5");
  EXPECT_EQ(units.ngram(3, 1), "\U0001F600");
  EXPECT_EQ(units.ngrams(4), 1);
  EXPECT_EQ(units.ngrams(5), 0);
}

TEST(Characters, CountABadByteAsOne) { EXPECT_EQ(characters("a\xFF\xE6\x97z").size(), 5); }

}  // namespace
}  // namespace sluice::training
