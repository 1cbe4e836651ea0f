#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <set>

#include "core/error.h"
#include "data/parallel/pair_filter.h"
#include "data/parallel/text_pair_files.h"
#include "data/parallel/translation_split.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

using namespace std::string_literals;
using Pairs = std::vector<TextPair>;

TEST(TsvPairs, AreReadLineByLine) {
  EXPECT_EQ(parse_tsv_pairs("x", "\xEF\xBB\xBFone\teins\r\n\ntwo\tzwei"), (Pairs{{"one", "eins"}, {"two", "zwei"}}));
  EXPECT_EQ(parse_tsv_pairs("x", "\teins\none\t\n"), (Pairs{{"", "eins"}, {"one", ""}}));
  EXPECT_TRUE(parse_tsv_pairs("x", "").empty());
}

TEST(TsvPairs, MayHaveLinesThatEndInACarriageReturnAlone) {
  EXPECT_EQ(parse_tsv_pairs("x", "one\teins\r\rtwo\tzwei\r"), (Pairs{{"one", "eins"}, {"two", "zwei"}}));
  EXPECT_EQ(parse_tsv_pairs("x", "o\rne\teins\n"), (Pairs{{"o\rne", "eins"}})) << "a sentence may have one where LF ends the lines";
}

TEST(TsvPairs, SayWhatIsWrongAndWhere) {
  expect_error<DataError>([] { parse_tsv_pairs("a.tsv", "one\teins\ntwo zwei\n"); }, {"a.tsv: line 2", "no tab"});
  expect_error<DataError>([] { parse_tsv_pairs("a.tsv", "\n\na\tb\tc\n"); }, {"line 3", "more than one tab", "cut"});
  expect_error<DataError>([] { parse_tsv_pairs("a.tsv", "a\tb\0c"s); }, {"byte 3", "NUL"});
  expect_error<DataError>([] { parse_tsv_pairs("a.tsv", "\x1f\x8b\x08"); }, {"gzip", "gunzip"});
  expect_error<DataError>(
      [] {
        parse_tsv_pairs("a.tsv",
                        "\xFF\xFE"
                        "a\0"s);
      },
      {"UTF-16", "iconv"});
  EXPECT_THROW(read_tsv_pairs("missing.tsv", "en", "de"), DataError);
}

TEST(TsvPairs, OfAFolderHaveTheLanguagesOfTheirNames) {
  const TemporaryFolder folder;
  folder.write("en-pt_BR.tsv", "one\tum\n");
  folder.write("en-de.tsv", "one\teins\n");
  folder.write("notes.txt", "no pairs");
  const auto texts = read_tsv_folder(folder.path());
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].target_language, "de");
  EXPECT_EQ(texts[1].source_language, "en");
  EXPECT_EQ(texts[1].target_language, "pt_BR");
  EXPECT_EQ(texts[1].pairs, (Pairs{{"one", "um"}}));
  folder.write("pairs.tsv", "");
  expect_error<DataError>([&] { read_tsv_folder(folder.path()); }, {"pairs.tsv", "en-de.tsv", "rename"});
  expect_error<DataError>([] { read_tsv_folder(TemporaryFolder().path()); }, {"got none"});
  const TemporaryFolder one_language;  // a model cannot be asked to translate into what it translates from
  one_language.write("en-en.tsv", "one\tuno\n");
  expect_error<DataError>([&] { read_tsv_folder(one_language.path()); }, {"en-en.tsv", "got en for both", "rename"});
  EXPECT_THROW(read_tsv_folder(folder.path() / "none"), DataError);
}

/// A file of another spelling or a link to nothing was passed over, and a hidden file, as macOS writes them, was taken for a language.
TEST(TsvPairs, OfAFolderAreThoseOfAllItsFilesButHiddenOnes) {
  const TemporaryFolder folder;
  folder.write("en-de.TSV", "one\teins\n");
  folder.write(".en-fr.tsv", "one\tun\n");
  const auto texts = read_tsv_folder(folder.path());
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0].source_language + texts[0].target_language, "ende");
  std::filesystem::create_symlink("/proc/nothing", folder.path() / "en-it.tsv");
  expect_error<DataError>([&] { read_tsv_folder(folder.path()); }, {"en-it.tsv", "no such file"});
}

TEST(MosesPairs, AreLinesWithTheSameNumber) {
  const TemporaryFolder folder;
  folder.write("corpus.en", "one\n\nthree\n");
  folder.write("corpus.de", "eins\nzwei\ndrei");
  const ParallelText text = read_moses_pairs(folder.path() / "corpus", "en", "de");
  EXPECT_EQ(text.target_language, "de");
  EXPECT_EQ(text.pairs, (Pairs{{"one", "eins"}, {"", "zwei"}, {"three", "drei"}}));
  folder.write("corpus.fr", "un\n");
  expect_error<DataError>([&] { read_moses_pairs(folder.path() / "corpus", "en", "fr"); }, {"3 in", "corpus.en", "1 in", "corpus.fr"});
  EXPECT_THROW(read_moses_pairs(folder.path() / "corpus", "en", "pl"), DataError);
}

TEST(Markup, IsATagOfHtmlOrAnEntity) {
  for (const char* text :
       {"a <b>bold</b> word", "<BR>", "line<br/>", "</p>", "<a href=\"x\">", "&nbsp;", "x&amp;y", "&#160;", "&#xA0;", "<<b>"})
    EXPECT_TRUE(has_markup(text)) << text;
  for (const char* text :
       {"a < b", "a <b and c", "<file>", "<ctrl>x", "R&D; B", "&File", "AT&T", "x && y;", "<", "&", "<b", "&amp", "<b <", "&#;", "<bx>"})
    EXPECT_FALSE(has_markup(text)) << text;
}

TEST(PairFilter, CountsEachReason) {
  PairCounts counts;
  const ParallelText text{"en",
                          "de",
                          {{"ok", "gut"},
                           {"bad", "\xE4"},
                           {" \n", "leer"},
                           {"eleven chars", "ü"},
                           {std::string(21, 'x'), "lang"},
                           {"a <i>", "b"},
                           {"Bonn", "Bonn"},
                           {"ok", "gut"},
                           {"ok", "fein"}}};
  const auto kept = filter_pairs(text, {.most_characters = 20, .most_ratio = 10}, counts);
  EXPECT_EQ(kept.pairs, (Pairs{{"ok", "gut"}, {"ok", "fein"}}));
  EXPECT_EQ(counts.read, 9);
  for (const int64_t count :
       {counts.malformed, counts.empty, counts.too_long, counts.ratio, counts.markup, counts.copies, counts.duplicates})
    EXPECT_EQ(count, 1);
  EXPECT_EQ(counts.kept, 2);
  EXPECT_TRUE(counts.text().starts_with("kept 2 of 9 pairs\nleft out 1: malformed UTF-8\n")) << counts.text();
  filter_pairs(kept, {.keep_copies = true}, counts);
  EXPECT_EQ(counts.kept, 4);
}

TEST(PairFilter, KeepsCopiesWhenAsked) {
  PairCounts counts;
  EXPECT_EQ(filter_pairs({"en", "de", {{"Bonn", "Bonn"}}}, {.keep_copies = true}, counts).pairs.size(), 1u);
  EXPECT_EQ(counts.text(), "kept 1 of 1 pairs\n");
  EXPECT_THROW(filter_pairs({}, {.most_characters = 0}, counts), UsageError);
  EXPECT_THROW(filter_pairs({}, {.most_ratio = 0.5}, counts), UsageError);
}

RC_GTEST_PROP(PairFilter, AccountsForEveryPairAndIsDoneAtOnce, ()) {
  const auto side = rc::gen::element("a"s, "b"s, ""s, "\xE4"s, "a rather long text"s, "<b>"s, "ä"s);
  ParallelText text{"en", "de", {}};
  for (int64_t i = *rc::gen::inRange<int64_t>(0, 60); i > 0; --i) text.pairs.push_back({*side, *side});
  PairCounts counts, again;
  const auto kept = filter_pairs(text, {.most_ratio = 4}, counts);
  RC_ASSERT(counts.read == static_cast<int64_t>(text.pairs.size()));
  RC_ASSERT(counts.malformed + counts.empty + counts.too_long + counts.ratio + counts.markup + counts.copies + counts.duplicates +
                counts.kept ==
            counts.read);
  RC_ASSERT(filter_pairs(kept, {.most_ratio = 4}, again).pairs == kept.pairs);
}

RC_GTEST_PROP(TranslationSplit, HasNoSourceOfValidationInTrainingInAnyLanguage, (uint64_t seed)) {
  const auto word = rc::gen::map(rc::gen::inRange(0, 40), [](int i) { return "word" + std::to_string(i); });
  std::vector<ParallelText> texts{{"en", "de", {}}, {"en", "fr", {}}, {"en", "ja", {}}};
  size_t pairs = 0;
  for (auto& text : texts)
    for (int64_t i = *rc::gen::inRange<int64_t>(0, 60); i > 0; --i, ++pairs) text.pairs.push_back({*word, *word});
  const auto directions = *rc::gen::element(Directions::forward, Directions::backward, Directions::both);
  const auto split = split_by_source(texts, {.validation_fraction = 0.2, .seed = seed, .directions = directions});
  std::set<std::string> sources;
  size_t found = 0;
  for (const auto& text : split.validation) {
    for (const auto& pair : text.pairs) sources.insert(pair.source);
    found += text.pairs.size();
  }
  RC_ASSERT(split.train.size() == split.validation.size());
  for (const auto& text : split.train) {
    for (const auto& pair : text.pairs) RC_ASSERT(!sources.count(pair.source) && !sources.count(pair.target));
    found += text.pairs.size();
  }
  const size_t times = directions == Directions::both ? 2 : 1;
  RC_ASSERT(found + times * static_cast<size_t>(split.overlapping) == times * pairs);
}

TEST(TranslationSplit, HoldsOutTheFractionAndDependsOnTheSeed) {
  int held_out = 0, alike = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string source = "sentence " + std::to_string(i);
    held_out += is_held_out(source, 0.1, 1);
    alike += is_held_out(source, 0.1, 1) && is_held_out(source, 0.1, 2);
  }
  EXPECT_NEAR(held_out, 1000, 150);
  EXPECT_NEAR(alike, 100, 50);
  EXPECT_THROW(split_by_source({}, {.validation_fraction = 0.6}), UsageError);
}

TEST(TranslationSplit, TurnsPairsRound) {
  const auto split = split_by_source({{"en", "de", {{"one", "eins"}}}}, {.validation_fraction = 0, .directions = Directions::both});
  ASSERT_EQ(split.train.size(), 2u);
  EXPECT_EQ(split.train[0].source_language, "de");
  EXPECT_EQ(split.train[0].pairs, (Pairs{{"eins", "one"}}));
  EXPECT_EQ(split.train[1].pairs, (Pairs{{"one", "eins"}}));
}

TEST(TranslationSplit, HasOneTextOfADirectionThatSeveralCorporaHave) {
  const auto split = split_by_source({{"en", "de", {{"one", "eins"}}}, {"de", "en", {{"zwei", "two"}}}},
                                     {.validation_fraction = 0, .directions = Directions::both});
  ASSERT_EQ(split.train.size(), 2u);
  EXPECT_EQ(split.validation.size(), 2u);
  EXPECT_EQ(split.train[0].source_language, "de");
  EXPECT_EQ(split.train[0].pairs, (Pairs{{"eins", "one"}, {"zwei", "two"}}));
  EXPECT_EQ(split.train[1].source_language, "en");
  EXPECT_EQ(split.train[1].pairs, (Pairs{{"one", "eins"}, {"two", "zwei"}}));
}

}  // namespace
}  // namespace sluice::data
