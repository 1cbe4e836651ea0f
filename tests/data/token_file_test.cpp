#include "data/token_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/file/file.h"
#include "data/content_hash.h"
#include "data/text_dataset.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

std::vector<int32_t> all(const Tokens& tokens) { return tokens.run(0, tokens.size()); }

RC_GTEST_PROP(TokenFile, GivesBackTheIdsOfAnyVocabulary, ()) {
  const auto vocabulary = *rc::gen::element<int32_t>(1, 2, 256, 65536, 65537, INT32_MAX);
  const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, vocabulary));
  const TemporaryFolder folder;
  const Tokens tokens = Tokens::of(ids, vocabulary);
  RC_ASSERT(all(tokens) == ids);
  tokens.save(folder.path() / "made/ids.tokens");
  const Tokens opened = Tokens::open(folder.path() / "made/ids.tokens");
  RC_ASSERT(all(opened) == ids);
  RC_ASSERT(opened.vocabulary() == vocabulary);
}

/// A file of 3,000 tokens, as bytes.
std::string sample_file(const TemporaryFolder& folder) {
  std::vector<int32_t> ids(3000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 5000);
  Tokens::of(ids, 5000).save(folder.path() / "whole.tokens");
  return read_file(folder.path() / "whole.tokens");
}

TEST(TokenFile, RefusesTruncationAtEveryByteOfTheHeaderAndManyOfTheTokens) {
  const TemporaryFolder folder;
  const std::string whole = sample_file(folder);
  ASSERT_EQ(whole.size(), 96u + 6000u);
  for (size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 7)
    EXPECT_THROW(Tokens::open(folder.write("cut.tokens", std::string_view(whole).substr(0, size))), DataError) << size;
  EXPECT_THROW(Tokens::open(folder.write("long.tokens", whole + "x")), DataError);
}

TEST(TokenFile, RefusesAFlippedBitAnywhere) {
  const TemporaryFolder folder;
  const std::string whole = sample_file(folder);
  for (size_t i = 0; i < whole.size(); i += i < 100 ? 1 : 11) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    EXPECT_THROW(Tokens::open(folder.write("flipped.tokens", flipped)), DataError) << i;
  }
}

TEST(TokenFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  expect_error<DataError>([&] { Tokens::open(folder.path() / "pipe"); }, {"pipe"});
  expect_error<DataError>([&] { Tokens::open(folder.path()); }, {"regular file"});
  expect_error<DataError>([&] { Tokens::open(folder.path() / "missing"); }, {"missing", "No such file"});
}

TEST(TokenFile, RefusesIdsOutsideTheVocabulary) {
  EXPECT_THROW(Tokens::of(std::vector<int32_t>{0, 5}, 5), UsageError);
  EXPECT_THROW(Tokens::of(std::vector<int32_t>{-1}, 5), UsageError);
}

TEST(TokenFile, KeepsItsBytesWhenTheFileIsReplaced) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "ids.tokens";
  const std::vector<int32_t> old{1, 2, 3}, fresh{7, 8};
  Tokens::of(old, 9).save(path);
  const Tokens opened = Tokens::open(path);
  Tokens::of(fresh, 9).save(path);
  EXPECT_EQ(all(opened), old);
  EXPECT_EQ(all(Tokens::open(path)), fresh);
}

/// A signal (SIGBUS) ended the process: what was read was mapped.
TEST(TokenFile, ThatIsCutWhileItIsReadIsAnErrorWithItsSizeThenAndNow) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "ids.tokens";
  Tokens::of(std::vector<int32_t>(50000, 7), 100).save(path);
  const TextDataset text(Tokens::open(path), 16, 0.1, 0);
  const std::vector<int64_t> last{text.size(Split::train) - 1};
  EXPECT_EQ(text.load("tokens", Split::train, 0, last).to_vector(), std::vector<double>(16, 7));
  std::filesystem::resize_file(path, 3000);
  expect_error<DataError>([&] { text.load("tokens", Split::train, 0, last); },
                          {path.string(), "100096 bytes", "opened", "3000 now", "start again"});
  const std::vector<int64_t> first{0};
  EXPECT_EQ(text.load("tokens", Split::train, 0, first).to_vector(), std::vector<double>(16, 7));
}

TEST(Tokenize, PutsAnEmptyLineBetweenTextsAndKeepsTheResult) {
  const TemporaryFolder folder;
  const std::vector<TextFile> texts{{"a", "ab\n"}, {"b", "c"}, {"c", "d"}};
  const ByteTokenizer bytes;
  const std::vector<int32_t> expected{'a', 'b', '\n', '\n', 'c', '\n', '\n', 'd'};
  EXPECT_EQ(all(tokenize(texts, bytes, "")), expected);
  EXPECT_EQ(all(tokenize(texts, bytes, folder.path())), expected);
  ASSERT_EQ(folder.files(), 1u);
  const auto cached = std::filesystem::directory_iterator(folder.path())->path();
  std::filesystem::resize_file(cached, 100);
  EXPECT_EQ(all(tokenize(texts, bytes, folder.path())), expected);
  EXPECT_EQ(all(Tokens::open(cached)), expected);
}

TEST(Tokenize, SaysWhenTheCacheCannotBeWritten) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "not a folder");
  expect_error<ResourceError>([&] { tokenize({{"a", "text"}}, ByteTokenizer(), file / "cache"); }, {"file/cache", "folder"});
  expect_error<ResourceError>([&] { write_atomically("/dev/full/x", "bytes"); }, {"/dev/full"});
}

/// The name under which a process writes first that is process 1 of a container of its own; empty where no container can be made.
std::string temporary_name_in_a_container(const std::filesystem::path& path) {
  int ends[2];
  if (::pipe(ends) != 0) return "";
  const pid_t outside = ::fork();
  if (outside == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t inside = ::fork();
    if (inside == 0 && ::getpid() == 1)
      write_atomically(path, [&](const std::filesystem::path& temporary) {
        const std::string name = temporary.string();
        if (::write(ends[1], name.data(), name.size()) > 0) write_file(temporary, "ids");
      });
    if (inside > 0) ::waitpid(inside, nullptr, 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  char name[4096];
  const ssize_t bytes = ::read(ends[0], name, sizeof name);
  ::close(ends[0]);
  if (outside > 0) ::waitpid(outside, nullptr, 0);
  return {name, static_cast<size_t>(std::max<ssize_t>(0, bytes))};
}

/// Two of them wrote into one file and renamed it from under each other: one ended with a token file of 0 bytes, the other had no cache.
TEST(TokenFile, IsWrittenApartByContainersThatShareAFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "ids.tokens";
  const std::string one = temporary_name_in_a_container(path), other = temporary_name_in_a_container(path);
  if (one.empty() || other.empty()) GTEST_SKIP() << "no containers can be made here";
  EXPECT_NE(one, other);
  EXPECT_EQ(read_file(path), "ids");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(ContentHash, DependsOnTheBordersBetweenStrings) {
  EXPECT_NE(ContentHash().add("ab").add("c").text(), ContentHash().add("a").add("bc").text());
  EXPECT_NE(ContentHash().add("").text(), ContentHash().text());
  EXPECT_EQ(ContentHash().add("ab").text(), ContentHash().add("ab").text());
  EXPECT_EQ(ContentHash().text().size(), 32u);
}

}  // namespace
}  // namespace sluice::data
