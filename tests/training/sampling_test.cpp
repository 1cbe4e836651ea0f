#include "training/decoding/sampling.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/training/language_models.h"

namespace sluice::training {
namespace {

using namespace sluice::testing;

TEST(Sample, ContinuesAsTheWholeSequenceDoesOverAnyNumberOfDevices) {
  for (const auto positions : {models::PositionEncoding::learned, models::PositionEncoding::sinusoidal, models::PositionEncoding::rotary})
    for (const char* on : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"}) {
      const auto graph = models::transformer_lm(small_language_model(positions));
      const auto weights = drawn_weights(graph);
      Decoder decoder(graph, weights, devices(on), {});
      for (int times = 0; times < 2; ++times) {  // the second begins with empty caches again
        std::vector<int32_t> tokens{3, 1, 4, 1, 5}, expected = tokens;
        sample(decoder, std::vector<int32_t>(tokens), 10, {.temperature = 0}, [&](int32_t token) {
          tokens.push_back(token);
          return true;
        });
        for (int i = 0; i < 10; ++i) expected.push_back(sample_token(logits_of(graph, weights, expected), {.temperature = 0}, 0));
        EXPECT_EQ(tokens, expected) << static_cast<int>(positions) << " on " << on;
      }
    }
}

TEST(Sample, RefusesWhatDoesNotFit) {
  const auto graph = models::transformer_lm({.layers = 1, .dim = 8, .heads = 1, .vocab = 5, .context = 6});
  Decoder decoder(graph, drawn_weights(graph), devices("cpu:0"), {}), wide(graph, drawn_weights(graph), devices("cpu:0"), {.rows = 2});
  const auto emit = [](int32_t) { return true; };
  const std::vector<int32_t> prompt{1, 2, 3};
  expect_error<UsageError>([&] { sample(decoder, prompt, 4, {}, emit); }, {"the context of 6, got 3 + 4"});
  expect_error<UsageError>([&] { sample(decoder, {}, 4, {}, emit); }, {"at least one token"});
  expect_error<UsageError>([&] { sample(wide, prompt, 1, {}, emit); }, {"one row, got 2"});
}

TEST(SampleToken, KeepsToTheMostLikelyTokens) {
  const std::vector<double> logits{0.0, 3.0, 2.0, -1.0};
  for (double random : {0.0, 0.3, 0.6, 0.999}) {
    EXPECT_EQ(sample_token(logits, {.temperature = 0}, random), 1);
    EXPECT_EQ(sample_token(logits, {.top_k = 1}, random), 1);
    EXPECT_EQ(sample_token(logits, {.top_p = 0.5}, random), 1);
    const int32_t of_two = sample_token(logits, {.top_k = 2}, random);
    EXPECT_TRUE(of_two == 1 || of_two == 2);
  }
  EXPECT_EQ(sample_token(logits, {}, 0.0), 0);
  EXPECT_EQ(sample_token(logits, {}, 0.9999), 3);
}

TEST(SampleToken, OfATemperatureNearZeroIsTheMostLikelyOne) {
  for (const double temperature : {1e-3, 1e-200, 1e-308})
    EXPECT_EQ(sample_token({0.0, 3.0, 2.0, -1e5}, {.temperature = temperature}, 0.5), 1) << temperature;
}

TEST(SampleToken, RefusesATemperatureThatIsNotFinite) {
  for (const double temperature : {double{INFINITY}, std::nan(""), -1.0})
    expect_error<UsageError>([&] { sample_token({-INFINITY, 1, 1}, {.temperature = temperature}, 0.5); }, {"temperature", "finite"});
}

TEST(SampleToken, TakesMinusInfinityForATokenThatNeverComes) {
  for (const double random : {0.0, 0.5, 0.999}) EXPECT_NE(sample_token({-INFINITY, 1, 1}, {}, random), 0);
  expect_error<Error>([] { sample_token({-INFINITY, -INFINITY}, {}, 0); }, {"needs a token that may come"});
}

TEST(SampleToken, RefusesLogitsThatAreNoNumbers) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    for (const double temperature : {0.0, 1.0})
      expect_error<Error>([&] { sample_token({1, bad, 2}, {.temperature = temperature}, 0); }, {"for token 1", "not finite"});
}

}  // namespace
}  // namespace sluice::training
