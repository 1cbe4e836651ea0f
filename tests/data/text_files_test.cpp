#include "data/text_files.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/error.h"
#include "core/utf8.h"
#include "data/html.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

TEST(Utf8, AcceptsTheFirstAndLastCharacterOfEachLength) {
  for (const char32_t c : {U'\0', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uD7FF', U'\uE000', U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string text = "12345678";
    append_utf8(text, c);
    EXPECT_EQ(first_invalid_utf8(text), std::string::npos) << static_cast<uint32_t>(c);
    EXPECT_EQ(first_invalid_utf8(std::string_view(text).substr(0, text.size() - 1)), c < 0x80 ? std::string::npos : size_t{8});
    EXPECT_EQ(character_start(text, text.size() - 1), 8u);
  }
}

TEST(Utf8, RefusesOverlongSurrogateTooLargeAndStrayBytes) {
  for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
                                     "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xE2\x82x"})
    EXPECT_EQ(first_invalid_utf8("ab\xC3\xA9" + std::string(bad) + "more text behind"), 4u);
}

TEST(Html, KeepsProseAndDropsTheRest) {
  const std::string page =
      "<!DOCTYPE html><html><head><title>no</title></head><body><!-- no > --><script>if (a<b) no();</script>\n"
      "<h1>Head\n  line</h1><p>One <b>bold</b>&nbsp;word, a &lt; b &amp; c &mdash; &#8220;d&#x201D; &unknown; R&D 1 < 2.</p>"
      "<ul><li>x</li><li>y<br/>z</li></ul><STYLE>no</STYLE></body></html>";
  EXPECT_EQ(html_to_text(page), "Head line\n\nOne bold word, a < b & c \u2014 \u201Cd\u201D &unknown; R&D 1 < 2.\n\nx\n\ny\n\nz\n");
}

/// The whole page was once left out: HTML5 lets a head end without its end tag.
TEST(Html, EndsAHeadAtWhatItCannotHold) {
  const std::string head = "<!DOCTYPE html><html><head><meta content='a > b'><!-- <p> --><title>no <p></title><noscript><img></noscript>\n";
  for (const std::string start : {"</head><body>", "<body>", "<p>", "</head>", "", "<h1>", "</html>"})
    EXPECT_EQ(html_to_text(head + start + "It was night.<p>It rained."), "It was night.\n\nIt rained.\n") << start;
  EXPECT_EQ(html_to_text(head + "<style>p > b</style><link><script>if (a<b) no();</script><base>"), "");
  EXPECT_EQ(html_to_text("<p>a<head>"), "a\n");
}

/// Everything to the next end tag of a script was once left out.
TEST(Html, TakesAnElementThatClosesItselfForWholeInXhtmlOnly) {
  const std::string page =
      "<head><title/><script src=\"a>b.js\"/></head><body><script src='c.js' /><p>one</p><script>no</script>two</body></html>";
  for (const std::string start : {"<?xml version=\"1.0\"?><html>", "<html xmlns=\"http://www.w3.org/1999/xhtml\">",
                                  "<!doctype html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"x.dtd\"><html>"})
    EXPECT_EQ(html_to_text(start + page), "one\n\ntwo\n") << start;
  EXPECT_EQ(html_to_text("<!DOCTYPE html><html><body><?xml:namespace prefix = o /><script src='a.js'/>no</script><p>one"), "one\n");
}

TEST(Html, DropsAllOfANavThatHasOthersInIt) {
  EXPECT_EQ(html_to_text("<nav>a<nav>b</nav>c</nav>d"), "d\n");
  EXPECT_EQ(html_to_text("<nav>a<!-- </nav> --><script>'</nav>'</script> 1 < 2 <p>c</nav>d"), "d\n");
  EXPECT_EQ(html_to_text("<nav>a<nav>b</nav>c"), "");
}

TEST(Html, EndsATagBehindItsQuotedValues) {
  EXPECT_EQ(html_to_text("a <img alt=\"b > c\" title = 'd > e'>f <img alt=\"g\" h\">i"), "a f i\n");
  EXPECT_EQ(html_to_text("a <img alt=\"b>c <b>d"), "a c d\n");
}

RC_GTEST_PROP(Html, TurnsAnyValidTextIntoValidTextThatIsNotMuchLonger, ()) {
  const auto words = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("<", ">", "&", ";", "</", "<p>", "<!--", "-->", "<script", "&#", "x2019", "&#0;", "&#xD800;", "&amp;",
                                    "a", " ", "\n", "é", "head", "/", "<head>", "<html xmlns=xhtml>", "<style/>", "=\""));
  std::string page;
  for (const auto& word : words) page += word;
  const std::string text = html_to_text(page);
  RC_ASSERT(first_invalid_utf8(text) == std::string::npos);
  RC_ASSERT(text.size() <= page.size() * 2 + 1);
}

TEST(TextFiles, WalksAFolderInTheOrderOfPathsAndLeavesOutOtherKinds) {
  const TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.md", "z");
  folder.write("a/page.html", "<p>page</p>");
  folder.write("c.bin", "\xFF\xFF");
  folder.write("empty.txt", "");
  folder.write(".git/x.txt", "hidden");
  folder.write(".hidden.txt", "hidden");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe.txt").c_str(), 0600), 0);
  const auto texts = find_text(folder.path());
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts[0].text, "page\n");
  EXPECT_EQ(texts[1].text, "z");
  EXPECT_EQ(texts[2].text, "b");
}

TEST(TextFiles, ReadsEndingsInCapitalsToo) {
  const TemporaryFolder folder;
  folder.write("a.TXT", "a");
  folder.write("b.Html", "<p>b</p>");
  const auto texts = find_text(folder.path());
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1].text, "b\n");
}

/// Its texts were once left out without a word.
TEST(TextFiles, RefusesALinkedFolderAndTakesALinkedText) {
  const TemporaryFolder folder, elsewhere;
  folder.write("a/a.txt", "a");
  const auto text = elsewhere.write("more/b.txt", "b");
  std::filesystem::create_symlink(text, folder.path() / "a" / "b.txt");
  std::filesystem::create_symlink(elsewhere.path() / "nothing", folder.path() / "nothing.txt");
  EXPECT_EQ(find_text(folder.path()).size(), 2u);
  std::filesystem::create_directory_symlink(elsewhere.path() / "more", folder.path() / "a" / "more");
  expect_error<DataError>([&] { find_text(folder.path()); }, {"a/more: is a link to a folder", "put the folder itself here"});
}

TEST(TextFiles, NamesALinkThatLeadsBackToItself) {
  const TemporaryFolder folder;
  const auto link = folder.path() / "more" / "loop.txt";
  folder.write("more/a.txt", "a");
  std::filesystem::create_symlink(link, link);
  for (const auto& path : {folder.path(), link})
    expect_error<DataError>([&] { find_text(path); }, {link.string() + ": cannot be looked up: ", "point it elsewhere"});
}

TEST(TextFiles, TurnsEveryLineEndIntoLfAndDropsTheByteOrderMark) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_text(folder.write("a.txt", "\xEF\xBB\xBFone\r\ntwo\rthree\n\r\nfour\r"))[0].text, "one\ntwo\nthree\n\nfour\n");
}

TEST(TextFiles, ReadsANamedFileWhateverItsNameEndsIn) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_text(folder.write("LICENSE", "free"))[0].text, "free");
}

TEST(TextFiles, NamesFileByteAndCureOfTextThatIsNotUtf8) {
  const TemporaryFolder folder;
  const auto latin = folder.write("latin.txt", "caf\xE9 au lait");
  expect_error<DataError>([&] { find_text(latin); }, {"latin.txt", "byte 3", "iconv -f", "-t UTF-8"});
  const auto utf16 = folder.write("utf16.txt", std::string_view("h\0i\0", 4));
  expect_error<DataError>([&] { find_text(folder.path() / "utf16.txt"); }, {"utf16.txt", "byte 1", "NUL", "iconv -f UTF-16"});
  const auto packed = folder.write("packed.gz", "\x1f\x8b\x08xyz");
  expect_error<DataError>([&] { find_text(packed); }, {"packed.gz", "gunzip"});
}

TEST(TextFiles, RefusesWhatHoldsNoText) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error<DataError>([&] { find_text(pipe); }, {"pipe", "regular file"});
  expect_error<DataError>([&] { find_text("/dev/zero"); }, {"/dev/zero", "regular file"});
  expect_error<DataError>([&] { find_text(folder.path() / "missing.txt"); }, {"missing.txt", "no such file"});
  expect_error<DataError>([&] { find_text(folder.path()); }, {"no text", ".txt"});
  expect_error<DataError>([&] { find_text(folder.write("empty.txt", "")); }, {"empty.txt", "no text"});
  expect_error<DataError>([&] { find_text(""); }, {"no such file"});
}

TEST(TextFiles, ReadsOneLineOfAHundredMillionBytesInLittleMoreMemory) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer's own memory is several times the program's";
#endif
  const TemporaryFolder folder;
  const std::string words(1'000'000, 'a');
  {
    std::ofstream line(folder.path() / "line.txt");
    for (int i = 0; i < 100; ++i) line << words;
  }
  const auto peak_bytes = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * int64_t{1024};
  };
  const int64_t before = peak_bytes();
  EXPECT_EQ(find_text(folder.path())[0].text.size(), 100'000'000u);
  EXPECT_LT(peak_bytes() - before, 150'000'000);
}

TEST(TextFiles, SaysThatItMayNotRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  const auto file = folder.write("secret.txt", "secret");
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  expect_error<DataError>([&] { find_text(file); }, {"secret.txt", "Permission denied"});
}

}  // namespace
}  // namespace sluice::data
