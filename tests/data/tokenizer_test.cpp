#include "data/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/file/file.h"
#include "core/utf8.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/stream_decoder.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

/// Text with many different words, a function of nothing.
const std::vector<TextFile>& corpus() {
  static const std::vector<TextFile> texts = [] {
    std::string text;
    for (int i = 0; i < 3000; ++i) {
      const char* const parts[] = {"the ", "pipe", "line ", "stage ", "of ", "micro", "batch", "es ", "sends ", "gradient", "s.\n"};
      text += parts[(i * i + i / 7) % 11];
    }
    return std::vector<TextFile>{{"corpus.txt", text}};
  }();
  return texts;
}

const TokenizerPtr& bpe() {
  static const TokenizerPtr tokenizer = train_bpe(300, corpus());
  return tokenizer;
}

std::string random_text() {
  std::string text;
  for (const auto& word : *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
           "pipe", "line", " ", "  ", "\n", "\t", "\r", "é", "漢字", "🦉", "\u00A0", "x", "stage of ", "<0x41>", "<unk>")))
    text += word;
  return text;
}

RC_GTEST_PROP(ByteTokenizer, GivesBackAnyBytes, (std::string text)) {
  const ByteTokenizer bytes;
  RC_ASSERT(bytes.decode(bytes.encode(text)) == text);
}

RC_GTEST_PROP(BpeTokenizer, GivesBackAnyText, ()) {
  const std::string text = random_text();
  RC_ASSERT(bpe()->decode(bpe()->encode(text)) == text);
}

RC_GTEST_PROP(BpeTokenizer, GivesBackAnyCharacterButTheOneThatStandsForSpace, ()) {
  std::string text;
  for (const auto c : *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(1, 0x110000)))
    if ((c < 0xD800 || c > 0xDFFF) && c != 0x2581) append_utf8(text, c);
  RC_ASSERT(bpe()->decode(bpe()->encode(text)) == text);
}

RC_GTEST_PROP(StreamDecoder, GivesTheTextAsItsTokensCome, ()) {
  const std::string text = random_text();
  StreamDecoder stream(*bpe());
  std::string streamed;
  for (const int32_t token : bpe()->encode(text)) {
    streamed += stream.add(token);
    RC_ASSERT(text.starts_with(streamed));
  }
  RC_ASSERT(streamed + stream.finish() == text);
}

/// Of any tokens, so of bytes that are no text as well, as models say them.
RC_GTEST_PROP(StreamDecoder, GivesWhatAllTokensSay, ()) {
  const auto tokens =
      *rc::gen::container<std::vector<int32_t>>(rc::gen::oneOf(rc::gen::inRange<int32_t>(0, 300), rc::gen::inRange<int32_t>(128, 257)));
  StreamDecoder stream(*bpe());
  std::string streamed;
  for (const int32_t token : tokens) streamed += stream.add(token);
  RC_ASSERT(streamed + stream.finish() == bpe()->decode(tokens));
}

TEST(BpeTokenizer, EncodesBytesThatNoCharacterBeginsWith) { EXPECT_FALSE(bpe()->encode(std::string(10000, '\x80')).empty()); }

TEST(BpeTokenizer, LearnsPiecesAndHasTheVocabularyAskedFor) {
  EXPECT_EQ(bpe()->vocabulary(), 300);
  const std::string text = "the pipeline sends microbatches of gradients.\n";
  EXPECT_LT(bpe()->encode(text).size(), text.size() * 2 / 3);
}

TEST(BpeTokenizer, EncodesAVeryLongLine) {
  std::string text;
  while (text.size() < 100'000) text += "漢字pipeline";
  EXPECT_EQ(bpe()->decode(bpe()->encode(text)), text);
  const std::string spaces(20'000, ' ');
  EXPECT_EQ(bpe()->decode(bpe()->encode(spaces)), spaces);
}

TEST(BpeTokenizer, IsAFunctionOfTheCorpus) { EXPECT_EQ(train_bpe(300, corpus())->serialized(), bpe()->serialized()); }

TEST(BpeTokenizer, SaysWhenTheVocabularyDoesNotFit) {
  expect_error<UsageError>([] { train_bpe(256, corpus()); }, {"at least 258", "256"});
  expect_error<UsageError>([] { train_bpe(-1, corpus()); }, {"at least 258"});
  expect_error<DataError>([] { train_bpe(20'000, corpus()); }, {"20000", "vocabulary of at most", "model.vocab"});
  expect_error<DataError>([] { train_bpe(258, corpus()); }, {"258", "vocabulary of at least", "model.vocab"});
  expect_error<DataError>([] { train_bpe(300, {{"dots.txt", "."}}); }, {"300"});
}

TEST(Tokenizers, AreChosenBySpec) {
  const TemporaryFolder folder;
  EXPECT_EQ(make_tokenizer("bytes", 0, {}, "")->vocabulary(), 256);
  EXPECT_EQ(make_tokenizer("bpe", 300, corpus(), "")->serialized(), bpe()->serialized());
  const auto& trained = dynamic_cast<const SentencePieceTokenizer&>(*bpe());
  const auto given = make_tokenizer(folder.write("my.model", trained.model()).string(), 0, {}, "");
  EXPECT_EQ(given->encode("pipeline"), bpe()->encode("pipeline"));
  expect_error<UsageError>([] { make_tokenizer("byte", 0, {}, ""); }, {"'byte'", "did you mean 'bytes'"});
  expect_error<UsageError>([] { make_tokenizer("wordpieces", 0, {}, ""); }, {"bytes, bpe"});
  expect_error<DataError>([] { make_tokenizer("missing.model", 0, {}, ""); }, {"missing.model"});
}

TEST(Tokenizers, RefuseIdsOutsideTheVocabulary) {
  for (const int32_t id : {-1, 300, INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(bpe()->decode(std::vector{id}), UsageError);
    EXPECT_THROW(ByteTokenizer().decode(std::vector{id}), UsageError);
  }
}

TEST(Tokenizers, RefuseEveryModelFileThatIsCut) {
  const std::string model = dynamic_cast<const SentencePieceTokenizer&>(*bpe()).model();
  for (size_t size = 0; size < model.size(); size += 1 + size / 64)
    EXPECT_THROW(SentencePieceTokenizer("cut", std::string_view(model).substr(0, size)), DataError) << size;
  EXPECT_THROW(SentencePieceTokenizer("text", "this is a text, not a model"), DataError);
}

TEST(Tokenizers, ComeBackFromTheirSerializedForm) {
  const TokenizerPtr made[] = {std::make_shared<ByteTokenizer>(), bpe()};
  for (const TokenizerPtr& tokenizer : made) {
    const auto loaded = load_tokenizer(tokenizer->serialized());
    EXPECT_EQ(loaded->serialized(), tokenizer->serialized());
    EXPECT_EQ(loaded->encode("the pipeline"), tokenizer->encode("the pipeline"));
  }
}

TEST(Tokenizers, RefuseASerializedFormThatIsCutOrFlipped) {
  const std::string whole = bpe()->serialized();
  for (size_t i = 0; i < whole.size(); i += 1 + i / 64) {
    EXPECT_THROW(load_tokenizer(std::string_view(whole).substr(0, i)), DataError) << i;
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    EXPECT_THROW(load_tokenizer(flipped), DataError) << i;
  }
}

TEST(Tokenizers, AreTrainedOnceAndADamagedCopyIsReplaced) {
  const TemporaryFolder folder;
  make_tokenizer("bpe", 300, corpus(), folder.path());
  ASSERT_EQ(folder.files(), 1u);
  const auto cached = std::filesystem::directory_iterator(folder.path())->path();
  EXPECT_EQ(read_file(cached), bpe()->serialized());
  std::filesystem::resize_file(cached, 1000);
  EXPECT_EQ(make_tokenizer("bpe", 300, corpus(), folder.path())->serialized(), bpe()->serialized());
  EXPECT_EQ(read_file(cached), bpe()->serialized());
  make_tokenizer("bpe", 301, corpus(), folder.path());
  EXPECT_EQ(folder.files(), 2u);
}

TEST(Tokenizers, WriteNothingToTheTerminal) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  train_bpe(280, corpus());
  EXPECT_THROW(train_bpe(20'000, corpus()), DataError);
  EXPECT_THROW(SentencePieceTokenizer("text", "not a model"), DataError);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace sluice::data
