#include "data/parallel/gettext.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "data/parallel/locale_tree.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

constexpr std::string_view kUtf8Header = "Content-Type: text/plain; charset=UTF-8\n";

std::string number(uint32_t value, bool is_big_endian) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> 8 * (is_big_endian ? 3 - i : i)));
  return bytes;
}

/// A .mo file with these entries as they stand.
std::string mo_of(const CatalogueEntries& entries, bool is_big_endian = false, uint32_t revision = 0) {
  const auto count = static_cast<uint32_t>(entries.size());
  std::string tables[2], strings;
  for (int side = 0; side < 2; ++side)
    for (const auto& entry : entries) {
      const std::string& text = side == 0 ? entry.source : entry.target;
      tables[side] += number(static_cast<uint32_t>(text.size()), is_big_endian) +
                      number(static_cast<uint32_t>(28 + 16 * entries.size() + strings.size()), is_big_endian);
      strings += text + '\0';
    }
  std::string file;
  for (const uint32_t field : {0x950412DEu, revision, count, 28u, 28 + 8 * count, 0u, 28 + 16 * count})
    file += number(field, is_big_endian);
  return file + tables[0] + tables[1] + strings;
}

std::string with_number(std::string file, size_t at, uint32_t value) { return file.replace(at, 4, number(value, false)); }

using namespace std::string_literals;

TEST(Mo, GivesEntriesOfEitherByteOrderAndRevision) {
  const CatalogueEntries entries{{"", std::string(kUtf8Header)}, {"Aruba", "Аруба"}, {"German", "Deutsch"}};
  for (const bool is_big_endian : {false, true})
    for (const uint32_t revision : {0u, 1u, 0x10001u})
      EXPECT_EQ(parse_mo("x.mo", mo_of(entries, is_big_endian, revision)), (CatalogueEntries{entries[1], entries[2]}));
  EXPECT_TRUE(parse_mo("x.mo", mo_of({})).empty());
}

TEST(Mo, TakesTheSingularAndDropsContexts) {
  const std::string file = mo_of({{"menu\4Open", "Öffnen"}, {"%d file\0%d files"s, "%d Datei\0%d Dateien"s}});
  EXPECT_EQ(parse_mo("x.mo", file), (CatalogueEntries{{"Open", "Öffnen"}, {"%d file", "%d Datei"}}));
  EXPECT_TRUE(parse_mo("x.mo", mo_of({{"menu\4\0files"s, "Dateien"}})).empty());
}

TEST(Mo, RefusesEveryFileThatIsCut) {
  const std::string file = mo_of({{"", std::string(kUtf8Header)}, {"Aruba", "Аруба"}});
  for (size_t size = 0; size < file.size(); ++size) EXPECT_THROW(parse_mo("cut.mo", file.substr(0, size)), DataError) << size;
}

TEST(Mo, SaysWhatIsWrongAndWhere) {
  const std::string file = mo_of({{"one", "eins"}, {"two", "zwei"}});
  expect_error<DataError>([&] { parse_mo("a.mo", "x" + file); }, {"a.mo: byte 0", "magic", "msgfmt"});
  expect_error<DataError>([&] { parse_mo("a.mo", with_number(file, 4, 0x20000)); }, {"byte 4", "revision 0 or 1", "got 2"});
  expect_error<DataError>([&] { parse_mo("a.mo", with_number(file, 8, 0x40000000)); }, {"byte 12", "table of 1073741824", "fetch"});
  expect_error<DataError>([&] { parse_mo("a.mo", with_number(file, 12, 0xFFFFFFF0)); }, {"byte 12", "4294967280"});
  expect_error<DataError>([&] { parse_mo("a.mo", with_number(file, 28, 0xFFFFFFFF)); }, {"byte 28", "4294967295 bytes"});
  expect_error<DataError>([&] { parse_mo("a.mo", with_number(file, 28, 2)); }, {"needs the NUL"});
  expect_error<DataError>([&] { parse_mo("a.mo", mo_of({{"a", "\xE4"}})); }, {"is not valid UTF-8", "msgconv"});
  expect_error<DataError>([&] { parse_mo("a.mo", mo_of({{"", "charset=ISO-8859-1\n"}, {"a", "\xE4"}})); }, {"charset UTF-8", "ISO-8859-1"});
}

TEST(Mo, RefusesStringsThatNameTheSameBytesAgainAndAgain) {
  const CatalogueEntries entries(100, {"a", "b"});
  std::string file = mo_of(entries);
  const auto begin = static_cast<uint32_t>(file.size());
  file += std::string(1000, 'x') + '\0';
  for (size_t row = 0; row < 200; ++row) file = with_number(with_number(file, 28 + 8 * row, 1000), 32 + 8 * row, begin);
  expect_error<DataError>([&] { parse_mo("a.mo", file); }, {"more bytes than the file"});
}

RC_GTEST_PROP(Mo, GivesEntriesOrADataErrorForAnyFlippedBits, ()) {
  std::string file = mo_of({{"", std::string(kUtf8Header)}, {"menu\4Open", "Öffnen"}, {"one", "eins"}}, *rc::gen::arbitrary<bool>());
  for (const auto bit : *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, 8 * file.size())))
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8);
  try {
    RC_ASSERT(parse_mo("x.mo", file).size() <= 3);
  } catch (const DataError&) {
  }
}

constexpr const char* kPo = R"(# Comment
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"

#: file.c:12
#, c-format
msgid "Say \"%s\"\n"
msgstr "Sag „%s“\n"

msgctxt "menu"
msgid "Op"
"en"
msgstr "Öff"
  "nen\t\101\x42"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#, fuzzy, c-format
#| msgid "Old"
msgid "New"
msgstr "Alt"

msgid "Not translated"
msgstr ""

#, fuzzy
#~ msgid "Obsolete"
#~ msgstr "Veraltet"

msgid "Last"
msgstr "Letzte")";

TEST(Po, GivesTheTranslatedEntriesThatAreNotFuzzyOrObsolete) {
  const CatalogueEntries expected{{"Say \"%s\"\n", "Sag „%s“\n"}, {"Open", "Öffnen\tAB"}, {"%d file", "%d Datei"}, {"Last", "Letzte"}};
  EXPECT_EQ(parse_po("de.po", kPo), expected);
  std::string crlf = "\xEF\xBB\xBF";
  for (const char* c = kPo; *c != 0; ++c) crlf += *c == '\n' ? "\r\n" : std::string(1, *c);
  EXPECT_EQ(parse_po("de.po", crlf), expected);
  EXPECT_TRUE(parse_po("empty.po", "").empty());
}

TEST(Po, SaysWhatIsWrongAndWhere) {
  const auto refuses = [](const std::string& text, std::initializer_list<std::string> words) {
    expect_error<DataError>([&] { parse_po("a.po", text); }, words);
  };
  refuses("msgid \"a\"\nmsgstr \"b\n", {"a.po: line 2", "double quotes"});
  refuses("hello\n", {"line 1", "got 'hello'"});
  refuses("\"lost\"\n", {"line 1", "keyword"});
  refuses("msgstr \"b\"\n", {"line 1", "msgid before"});
  refuses("msgid \"a\"\n", {"line 1", "msgstr"});
  refuses("msgctxt \"a\"\n", {"line 1", "msgid after"});
  refuses("msgid \"a\"\nmsgid \"b\"\n", {"line 2", "msgstr before"});
  refuses("msgid \"a\"\nmsgstr \"b\"\nmsgstr \"c\"\n", {"line 3", "second"});
  refuses("msgid \"a\"\nmsgstr[0] \"b\"\n", {"line 2", "msgid_plural"});
  refuses("msgid \"a\"\nmsgid_plural \"b\"\nmsgstr[1] \"c\"\n", {"line 3", "msgstr[0]"});
  refuses("msgid \"a\"\nmsgid_plural \"b\"\nmsgstr[x] \"c\"\n", {"line 3", "number"});
  refuses("msgid \"\\q\"\n", {"line 1", "escape"});
  refuses("msgid \"a\\\"\n", {"line 1", "escape"});
  refuses("msgid \"a\"\nmsgstr \"\\xE4\"\n", {"line 2", "UTF-8", "msgconv"});
  refuses("msgid \"\"\nmsgstr \"charset=KOI8-R\\n\"\n", {"charset UTF-8", "KOI8-R"});
}

RC_GTEST_PROP(Po, GivesEntriesOrADataErrorForAnyEdit, ()) {
  std::string text = kPo;
  for (const auto at : *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, text.size())))
    text[at] = *rc::gen::element('"', '\\', '\n', '#', 'm', ' ', '[', '\0', '\xE4');
  try {
    RC_ASSERT(parse_po("x.po", text).size() <= 8);
  } catch (const DataError&) {
  }
}

TEST(Catalogue, IsReadByTheEndingOfItsName) {
  const TemporaryFolder folder;
  const auto po = read_catalogue(folder.write("de.po", "msgid \"one\"\nmsgstr \"eins\"\n"), "en", "de");
  const auto mo = read_catalogue(folder.write("de.mo", mo_of({{"one", "eins"}})), "en", "de");
  EXPECT_EQ(po.pairs, (CatalogueEntries{{"one", "eins"}}));
  EXPECT_EQ(mo.pairs, po.pairs);
  EXPECT_EQ(po.target_language, "de");
  EXPECT_THROW(read_catalogue(folder.path() / "none.po", "en", "de"), DataError);
}

class LocaleTreeTest : public ::testing::Test {
 protected:
  LocaleTreeTest() {
    write("de/LC_MESSAGES/iso_3166-1.mo", mo_of({{"Germany", "Deutschland"}}));
    write("de/LC_MESSAGES/iso_639-2.mo", mo_of({{"German", "Deutsch"}}));
    std::filesystem::create_symlink("iso_3166-1.mo", folder.path() / "de/LC_MESSAGES/iso_3166.mo");
    write("de/LC_MESSAGES/bash.mo", mo_of({{"done", "fertig"}}));
    write("sr@latin/LC_MESSAGES/iso_639-2.mo", mo_of({{"German", "nemački"}}));
    write("en_GB/LC_MESSAGES/iso_639-2.mo", mo_of({{"German", "German"}}));
    write("locale.alias", "");
  }
  void write(const std::string& name, std::string_view bytes) { folder.write(name, bytes); }
  TemporaryFolder folder;
};

TEST_F(LocaleTreeTest, HasATextOfEachLanguageAndCountsLinksOnce) {
  const auto tree = read_locale_tree(folder.path());
  ASSERT_EQ(tree.texts.size(), 2u);
  EXPECT_EQ(tree.texts[0].source_language, "en");
  EXPECT_EQ(tree.texts[0].target_language, "de");
  EXPECT_EQ(tree.texts[0].pairs, (CatalogueEntries{{"Germany", "Deutschland"}, {"German", "Deutsch"}}));
  EXPECT_EQ(tree.texts[1].target_language, "sr@latin");
  EXPECT_TRUE(tree.skipped.empty());
}

TEST_F(LocaleTreeTest, ReadsTheLanguagesAndDomainsAskedFor) {
  const auto tree = read_locale_tree(folder.path(), {.languages = {"en_GB", "de", "de"}, .domains = {"bash", "*-2"}});
  ASSERT_EQ(tree.texts.size(), 2u);
  EXPECT_EQ(tree.texts[0].pairs, (CatalogueEntries{{"done", "fertig"}, {"German", "Deutsch"}}));
  EXPECT_EQ(tree.texts[1].target_language, "en_GB");
}

TEST_F(LocaleTreeTest, SkipsDamagedCataloguesWithAMessage) {
  write("fr/LC_MESSAGES/iso_639-2.mo", "not a catalogue, though long enough to be one");
  const auto tree = read_locale_tree(folder.path());
  EXPECT_EQ(tree.texts.size(), 2u);
  ASSERT_EQ(tree.skipped.size(), 1u);
  EXPECT_NE(tree.skipped[0].find("fr/LC_MESSAGES/iso_639-2.mo: byte 0"), std::string::npos) << tree.skipped[0];
}

TEST_F(LocaleTreeTest, SaysWhyNothingCanBeRead) {
  for (const char* name : {"a", "b", "c", "d"})
    write(join("fr/LC_MESSAGES/iso_x", name, ".mo"), "not a catalogue, though long enough to be one");
  expect_error<DataError>([&] { read_locale_tree(folder.path(), {.languages = {"fr"}}); },
                          {"left out", "fr/LC_MESSAGES/iso_xa.mo: byte 0", "and 1 more"});
  expect_error<DataError>([&] { read_locale_tree(folder.path(), {.domains = {"iso_x*"}}); },
                          {"left out", "fr/LC_MESSAGES/iso_xa.mo: byte 0", "and 1 more"});
}

TEST_F(LocaleTreeTest, SaysWhatIsMissing) {
  expect_error<DataError>([&] { read_locale_tree(folder.path() / "none"); }, {"none", "cannot read"});
  expect_error<DataError>([&] { read_locale_tree(folder.path(), {.languages = {"de", "xx"}}); }, {"language xx", "iso-codes"});
  expect_error<DataError>([&] { read_locale_tree(folder.path(), {.domains = {"zsh"}}); }, {"no catalogue", "iso-codes"});
}

}  // namespace
}  // namespace sluice::data
