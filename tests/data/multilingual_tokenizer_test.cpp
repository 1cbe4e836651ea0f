#include "data/parallel/multilingual_tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "data/parallel/temperature.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace sluice::data {
namespace {

/// German has ten times the pairs of Russian.
const std::vector<ParallelText>& three_languages() {
  static const std::vector<ParallelText> texts = [] {
    std::vector<ParallelText> made{{"en", "de", {}}, {"en", "ru", {}}};
    const char* const english[] = {"pipe", "line", "stage", "micro", "batch", "sends"};
    const char* const german[] = {"Rohr", "Leitung", "Stufe", "klein", "Stapel", "sendet"};
    const char* const russian[] = {"труба", "линия", "этап", "микро", "пакет", "шлёт"};
    for (int i = 0; i < 660; ++i) {
      const int a = i % 6, b = i / 6 % 6, c = i / 36;
      const auto say = [&](const char* const* words) { return join(words[a], " ", words[b], " ", words[c % 6], " ", c); };
      made[i % 11 == 0 ? 1 : 0].pairs.push_back({say(english), say(i % 11 == 0 ? russian : german)});
    }
    return made;
  }();
  return texts;
}

const MultilingualTokenizer& trained() {
  static const auto tokenizer = train_multilingual(340, three_languages(), 5, "");
  return *tokenizer;
}

TEST(MultilingualTokenizer, HasATagOfEachLanguageAfterThePieces) {
  EXPECT_EQ(trained().vocabulary(), 340);
  EXPECT_EQ(trained().languages(), (std::vector<std::string>{"de", "en", "ru"}));
  EXPECT_EQ(trained().language_id("de"), 337);
  EXPECT_EQ(trained().language_id("ru"), 339);
  EXPECT_EQ(trained().end_of_sentence(), 1);
  expect_error<UsageError>([] { trained().language_id("rux"); }, {"'rux'", "de en ru", "did you mean 'ru'"});
}

TEST(MultilingualTokenizer, PutsTagsBeforeAndTheEndAfterAText) {
  const auto pieces = trained().encode("pipe шлёт");
  std::vector<int32_t> source{338, 339}, target{339};
  for (auto* ids : {&source, &target}) {
    ids->insert(ids->end(), pieces.begin(), pieces.end());
    ids->push_back(1);
  }
  EXPECT_EQ(trained().encode_source("en", "ru", "pipe шлёт"), source);
  EXPECT_EQ(trained().encode_target("ru", "pipe шлёт"), target);
  EXPECT_EQ(trained().encode_target("ru", ""), (std::vector<int32_t>{339, 1}));
  EXPECT_EQ(trained().decode(source), "pipe шлёт");
  EXPECT_EQ(trained().decode({}), "");
  for (const int32_t id : {-1, 340}) EXPECT_THROW(trained().decode(std::vector{id}), UsageError);
}

TEST(MultilingualTokenizer, ShowsEachIdAsPeopleReadIt) {
  std::string shown;
  for (const int32_t id : trained().encode_source("en", "de", "pipe шлёт")) shown += trained().piece(id);
  EXPECT_EQ(shown, "<en><de>pipe\u2581шлёт</s>");
  for (const int32_t id : {-1, 340}) EXPECT_THROW(trained().piece(id), UsageError);
}

TEST(MultilingualTokenizer, GivesNeitherTagsNorTheEndForAnyText) {
  for (const char* text : {"</s>", "<s>", "<unk>", "de en ru", "日本 🦉"})
    for (const int32_t id : trained().encode(text)) EXPECT_TRUE(id > 1 && id < 337) << text << " " << id;
}

TEST(MultilingualTokenizer, LearnsMoreOfASmallLanguageAtAHighTemperature) {
  const std::string text = "этап микро пакет";
  const auto tokens = [&](double temperature) { return train_multilingual(380, three_languages(), temperature, "")->encode(text).size(); };
  EXPECT_LT(tokens(5), tokens(1));
}

TEST(MultilingualTokenizer, ComesBackFromItsSerializedForm) {
  const auto loaded = std::dynamic_pointer_cast<const MultilingualTokenizer>(load_tokenizer(trained().serialized()));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->serialized(), trained().serialized());
  EXPECT_EQ(loaded->languages(), trained().languages());
  EXPECT_EQ(loaded->encode_source("de", "en", "Stufe"), trained().encode_source("de", "en", "Stufe"));
}

TEST(MultilingualTokenizer, RefusesASerializedFormThatIsCutOrFlipped) {
  const std::string whole = trained().serialized();
  for (size_t i = 0; i < whole.size(); i += 1 + i / 64) {
    EXPECT_THROW(load_tokenizer(std::string_view(whole).substr(0, i)), DataError) << i;
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    EXPECT_THROW(load_tokenizer(flipped), DataError) << i;
  }
}

TEST(MultilingualTokenizer, IsTrainedOnceForTheSameTexts) {
  const TemporaryFolder folder;
  const auto made = train_multilingual(340, three_languages(), 5, folder.path());
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_EQ(train_multilingual(340, three_languages(), 5, folder.path())->serialized(), made->serialized());
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_EQ(made->serialized(), trained().serialized());
}

TEST(MultilingualTokenizer, RefusesBadLanguagesAndPieces) {
  const auto pieces = [](EndOfSentence end) {
    return dynamic_cast<const SentencePieceTokenizer&>(*train_bpe(300, {{"x", "the pipeline stages send batches of gradients\n"}}, end));
  };
  expect_error<DataError>([&] { MultilingualTokenizer(pieces(EndOfSentence::none), {"en"}); }, {"end of a sentence"});
  const auto whole = pieces(EndOfSentence::piece);
  expect_error<UsageError>([&] { MultilingualTokenizer(whole, {}); }, {"at least one language"});
  expect_error<UsageError>([&] { MultilingualTokenizer(whole, {"en", "en"}); }, {"'en' twice"});
  expect_error<UsageError>([&] { MultilingualTokenizer(whole, {"e n"}); }, {"'e n'"});
  expect_error<UsageError>([&] { MultilingualTokenizer(whole, {""}); }, {"''"});
  EXPECT_THROW(train_multilingual(300, {}, 1, ""), DataError);
  expect_error<UsageError>([] { train_multilingual(261, three_languages(), 1, ""); }, {"at least 262", "tags of 3 languages", "got 261"});
  expect_error<DataError>([] { train_multilingual(20'000, three_languages(), 1, ""); }, {"at most", "of the 20000 asked for, 3 are tags"});
  EXPECT_THROW(train_multilingual(340, three_languages(), 0.5, ""), UsageError);
}

TEST(Temperature, FollowsTheSizesAtOneAndEvensThemOut) {
  const std::vector<double> sizes{900, 100, 0};
  const auto plain = temperature_shares(sizes, 1), middle = temperature_shares(sizes, 2), even = temperature_shares(sizes, 1e9);
  EXPECT_DOUBLE_EQ(plain[0], 0.9);
  EXPECT_DOUBLE_EQ(middle[0], 0.75);  // 30 : 10
  EXPECT_NEAR(even[1], 0.5, 1e-6);
  EXPECT_EQ(plain[2] + middle[2] + even[2], 0);
  EXPECT_TRUE(temperature_shares({}, 1).empty());
  EXPECT_THROW(temperature_shares(sizes, 0.9), UsageError);
  EXPECT_THROW(temperature_shares(sizes, std::nan("")), UsageError);
}

}  // namespace
}  // namespace sluice::data
