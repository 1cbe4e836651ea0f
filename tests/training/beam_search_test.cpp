#include "training/decoding/beam_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::training {
namespace {

using Tokens = std::vector<int32_t>;

/// A random language model: the logits depend on the whole prefix.
struct ToyModel {
  uint64_t seed = 0;
  int64_t vocabulary = 5;
  int levels = 0;       ///< logits take this many values, so that there are ties; 0 = any
  float end_logit = 0;  ///< added to the end token's, which is token 0
  std::vector<float> logits(const Tokens& prefix) const {
    uint64_t hash = seed + 1;
    for (const int32_t token : prefix) hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x9E3779B97F4A7C15u + (hash >> 29);
    std::mt19937_64 random(hash);
    std::vector<float> result;
    for (int64_t token = 0; token < vocabulary; ++token) {
      const double x = static_cast<double>(random() >> 11) * 0x1p-53;
      result.push_back(levels > 0 ? static_cast<float>(std::floor(x * levels)) : static_cast<float>(6 * x - 3));
    }
    result[0] += end_logit;
    return result;
  }
};

/// Runs several searches as one batch. What it knows of a prefix it has from the rows alone, as a cache of a model would.
std::vector<BeamSearch> run_batched(const std::vector<ToyModel>& models, const std::vector<BeamSearchOptions>& options) {
  std::vector<BeamSearch> searches(options.begin(), options.end());
  std::vector<std::vector<Tokens>> caches(searches.size(), {{}});
  const auto is_running = [](const BeamSearch& search) { return !search.done(); };
  while (std::any_of(searches.begin(), searches.end(), is_running)) {
    std::vector<float> logits;
    for (size_t i = 0; i < searches.size(); ++i) {
      std::vector<Tokens> extended;
      for (const auto& [token, parent] : searches[i].rows()) {
        extended.push_back(caches[i].at(static_cast<size_t>(parent)));
        extended.back().push_back(token);
        const auto row = models[i].logits(extended.back());
        logits.insert(logits.end(), row.begin(), row.end());
      }
      caches[i] = extended;
    }
    const auto batch = log_probabilities(logits, models[0].vocabulary);
    size_t begin = 0;
    for (auto& search : searches) {
      if (search.done()) continue;
      const size_t size = search.rows().size() * static_cast<size_t>(models[0].vocabulary);
      search.advance(std::span(batch).subspan(begin, size));
      begin += size;
    }
  }
  return searches;
}

BeamSearch run(const ToyModel& model, const BeamSearchOptions& options) { return run_batched({model}, {options})[0]; }

double divisor(size_t length, const BeamSearchOptions& options) {
  return std::pow((5 + static_cast<double>(length)) / 6, options.length_penalty);
}

struct Prefix {
  Tokens tokens;  ///< with the begin token, and with the end token where it came
  double log_probability = 0;
};

Hypothesis hypothesis_of(const Prefix& prefix, const BeamSearchOptions& options) {
  Tokens tokens(prefix.tokens.begin() + 1, prefix.tokens.end());
  const double score = prefix.log_probability / divisor(tokens.size(), options);
  const bool ended = !tokens.empty() && tokens.back() == options.end_token;
  if (ended) tokens.pop_back();
  return {tokens, prefix.log_probability, score, ended};
}

/// Every allowed continuation of every prefix, in the order of prefixes and tokens.
std::vector<Prefix> continue_all(const ToyModel& model, const BeamSearchOptions& options, const std::vector<Prefix>& prefixes) {
  std::vector<Prefix> result;
  for (const auto& prefix : prefixes) {
    const auto row = log_probabilities(model.logits(prefix.tokens), model.vocabulary);
    for (int32_t token = 0; token < model.vocabulary; ++token) {
      if (std::count(options.never.begin(), options.never.end(), token) > 0) continue;
      result.push_back(prefix);
      result.back().tokens.push_back(token);
      result.back().log_probability += row[static_cast<size_t>(token)];
    }
  }
  return result;
}

bool is_lower(const Hypothesis& a, const Hypothesis& b) { return a.score < b.score; }

/// Beam search with whole lists, sorted anew at each length.
std::vector<Hypothesis> plain_search(const ToyModel& model, const BeamSearchOptions& options, bool stops_early) {
  std::vector<Prefix> live{{{options.begin_token}, 0}};
  std::vector<Hypothesis> finished;
  const auto beams = static_cast<size_t>(options.beams);
  for (int64_t length = 1; length <= options.max_length && !live.empty() && finished.size() < beams; ++length) {
    if (stops_early && !finished.empty()) {
      const double bound = live[0].log_probability / divisor(static_cast<size_t>(options.max_length), options);
      if (std::max_element(finished.begin(), finished.end(), is_lower)->score >= bound) break;
    }
    auto all = continue_all(model, options, live);
    std::stable_sort(all.begin(), all.end(), [](const Prefix& a, const Prefix& b) { return a.log_probability > b.log_probability; });
    live.clear();
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const bool ended = all[rank].tokens.back() == options.end_token;
      if (ended && rank < beams) finished.push_back(hypothesis_of(all[rank], options));
      if (!ended && live.size() < beams) live.push_back(all[rank]);
    }
  }
  if (finished.empty())
    for (const auto& prefix : live) finished.push_back(hypothesis_of(prefix, options));
  std::stable_sort(finished.begin(), finished.end(), [](const Hypothesis& a, const Hypothesis& b) { return is_lower(b, a); });
  if (finished.size() > beams) finished.resize(beams);
  return finished;
}

BeamSearchOptions options_for(const ToyModel& model, int64_t beams, int64_t max_length, double length_penalty = 0.6) {
  return {.vocabulary = model.vocabulary,
          .begin_token = 0,
          .end_token = 0,
          .beams = beams,
          .length_penalty = length_penalty,
          .max_length = max_length};
}

ToyModel random_model(uint64_t seed) {
  return {seed, 2 + static_cast<int64_t>(seed % 7), seed % 3 == 0 ? 3 : 0, static_cast<float>(seed % 5) - 2};
}

BeamSearchOptions random_options(const ToyModel& model) {
  auto options = options_for(model, 1 + static_cast<int64_t>(model.seed / 3 % 6), 1 + static_cast<int64_t>(model.seed % 11),
                             0.4 * static_cast<double>(model.seed % 4));
  if (model.seed % 2 == 1) options.never = {1};
  return options;
}

TEST(BeamSearch, IsThePlainSearchOnRandomModels) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ToyModel model = random_model(seed);
    const auto options = random_options(model);
    ASSERT_EQ(run(model, options).hypotheses(), plain_search(model, options, true)) << "seed " << seed;
  }
}

TEST(BeamSearch, FindsTheBestThatAFullSearchWithoutEarlyStopFinds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ToyModel model = random_model(seed);
    const auto options = random_options(model);
    ASSERT_EQ(run(model, options).best(), plain_search(model, options, false).front()) << "seed " << seed;
  }
}

TEST(BeamSearch, StopsBeforeMaxLengthWhenNoBeamCanWin) {
  const ToyModel model{.end_logit = 8};
  auto search = run(model, options_for(model, 4, 1000));
  EXPECT_TRUE(search.best().tokens.empty());
  EXPECT_EQ(search.best().log_probability, search.best().score);  // ((5 + 1) / 6)^alpha
}

TEST(BeamSearch, GivesTheSameBatchedAndAlone) {
  std::vector<ToyModel> models;
  std::vector<BeamSearchOptions> options;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto model = random_model(seed);
    model.vocabulary = 6;
    models.push_back(model);
    options.push_back(random_options(model));
  }
  const auto searches = run_batched(models, options);
  for (size_t i = 0; i < models.size(); ++i) EXPECT_EQ(searches[i].hypotheses(), run(models[i], options[i]).hypotheses());
}

/// The ended sequence with the highest score of all that there are.
Hypothesis best_of_all(const ToyModel& model, const BeamSearchOptions& options) {
  Hypothesis best;
  best.score = -INFINITY;
  std::vector<Prefix> open{{{options.begin_token}, 0}};
  for (int64_t length = 1; length <= options.max_length; ++length) {
    std::vector<Prefix> longer;
    for (const auto& prefix : continue_all(model, options, open)) {
      const auto hypothesis = hypothesis_of(prefix, options);
      if (!hypothesis.ended)
        longer.push_back(prefix);
      else if (hypothesis.score > best.score)
        best = hypothesis;
    }
    open = longer;
  }
  return best;
}

TEST(BeamSearch, WithABeamForEachSequenceIsExhaustive) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const ToyModel model{seed, 3, 0, static_cast<float>(seed % 4) - 2};
    const auto options = options_for(model, 243, 5, 0.5 * static_cast<double>(seed % 4));
    ASSERT_EQ(run(model, options).best(), best_of_all(model, options)) << "seed " << seed;
  }
}

TEST(BeamSearch, WithOneBeamIsGreedy) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ToyModel model{seed, 6, seed % 2 == 0 ? 3 : 0, 0};
    Tokens prefix{0};
    bool ended = false;
    for (int i = 0; i < 12 && !ended; ++i) {
      const auto row = model.logits(prefix);
      const auto token = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
      ended = token == 0;
      if (!ended) prefix.push_back(token);
    }
    const auto best = run(model, options_for(model, 1, 12)).best();
    EXPECT_EQ(best.tokens, Tokens(prefix.begin() + 1, prefix.end()));
    EXPECT_EQ(best.ended, ended);
  }
}

RC_GTEST_PROP(BeamSearch, HoldsItsPromisesForOddSizes, ()) {
  const ToyModel model{*rc::gen::arbitrary<uint64_t>(), *rc::gen::inRange<int64_t>(1, 6), *rc::gen::inRange(0, 3),
                       *rc::gen::element(-9.0f, 0.0f, 9.0f)};
  auto options = options_for(model, *rc::gen::inRange<int64_t>(1, 20), *rc::gen::inRange<int64_t>(1, 7), *rc::gen::element(0.0, 0.6, 2.0));
  for (int32_t token = 1; token < model.vocabulary; ++token)
    if (*rc::gen::arbitrary<bool>()) options.never.push_back(token);
  const auto found = run(model, options).hypotheses();
  RC_ASSERT(found == plain_search(model, options, true));
  RC_ASSERT(!found.empty() && static_cast<int64_t>(found.size()) <= options.beams);
  RC_ASSERT(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; }));
  for (const auto& [tokens, log_probability, score, ended] : found) {
    RC_ASSERT(ended == found[0].ended);
    RC_ASSERT(static_cast<int64_t>(tokens.size()) + ended <= options.max_length &&
              (ended || static_cast<int64_t>(tokens.size()) == options.max_length));
    for (const int32_t token : tokens)
      RC_ASSERT(token != options.end_token && std::count(options.never.begin(), options.never.end(), token) == 0);
  }
}

TEST(BeamSearch, RanksEqualOnesByBeamThenByToken) {
  BeamSearch search({.vocabulary = 4, .begin_token = 0, .end_token = 3, .beams = 2, .max_length = 2});
  const std::vector<float> equal(8, -1);
  EXPECT_EQ(search.rows(), (std::vector<BeamSearch::Row>{{0, 0}}));
  search.advance(std::span(equal).first(4));
  EXPECT_EQ(search.rows(), (std::vector<BeamSearch::Row>{{0, 0}, {1, 0}}));
  search.advance(equal);
  EXPECT_TRUE(search.rows().empty());
  EXPECT_EQ(search.hypotheses()[0].tokens, (Tokens{0, 0}));
  EXPECT_EQ(search.hypotheses()[1].tokens, (Tokens{0, 1}));
  EXPECT_FALSE(search.best().ended);
}

TEST(BeamSearch, PrefersLongHypothesesMoreWithAHigherPenalty) {
  const std::vector<float> first{-1.0f, -1.2f}, second{-0.4f, -3.0f};  // token 0 ends
  const auto length_for = [&](double alpha) {
    BeamSearch search({.vocabulary = 2, .beams = 2, .length_penalty = alpha, .max_length = 2});
    search.advance(first);
    if (!search.done()) search.advance(second);
    return search.best().tokens.size();
  };
  EXPECT_EQ(length_for(0), 0u);
  EXPECT_EQ(length_for(4), 1u);
}

TEST(BeamSearch, RefusesLogProbabilitiesThatAreNoneAndStaysAsItWas) {
  BeamSearch search({.vocabulary = 2, .end_token = 1, .beams = 2, .max_length = 3});
  for (const float bad : {NAN, INFINITY, -INFINITY, 0.5f}) {
    const std::vector<float> values{-1, bad};
    expect_error<Error>([&] { search.advance(values); }, {"finite log-probabilities", "token 1 of row 0 after 0 tokens"});
  }
  expect_error<UsageError>([&] { search.advance(std::vector<float>(3, -1)); }, {"[1, 2]", "got 3"});
  expect_error<UsageError>([&] { search.best(); }, {"1 rows to extend"});
  search.advance(std::vector<float>{-1, -2});
  EXPECT_EQ(search.rows(), (std::vector<BeamSearch::Row>{{0, 0}}));
}

TEST(BeamSearch, RefusesToGoOnWhenItIsDone) {
  BeamSearch search({.vocabulary = 2, .max_length = 1});
  search.advance(std::vector<float>{-1, -1});
  EXPECT_TRUE(search.done());
  expect_error<UsageError>([&] { search.advance(std::vector<float>{-1, -1}); }, {"done"});
}

TEST(BeamSearch, RefusesOptionsOutOfRange) {
  const auto expect_refusal = [](auto change, std::initializer_list<std::string> words) {
    BeamSearchOptions options{.vocabulary = 4};
    change(options);
    expect_error<UsageError>([&] { BeamSearch search(options); }, words);
  };
  expect_refusal([](auto& options) { options.vocabulary = 0; }, {"vocabulary", "got 0"});
  expect_refusal([](auto& options) { options.beams = 0; }, {"beam", "got 0"});
  expect_refusal([](auto& options) { options.max_length = 0; }, {"max_length", "got 0"});
  expect_refusal([](auto& options) { options.length_penalty = -1; }, {"length_penalty", "got -1"});
  expect_refusal([](auto& options) { options.length_penalty = NAN; }, {"length_penalty", "nan"});
  expect_refusal([](auto& options) { options.begin_token = 4; }, {"begin", "got 4"});
  expect_refusal([](auto& options) { options.end_token = -1; }, {"end", "got -1"});
  expect_refusal([](auto& options) { options.never = {1, 9}; }, {"never", "got 9"});
  expect_refusal([](auto& options) { options.never = {0}; }, {"end token that may come"});
}

TEST(LogProbabilities, AreTheFormulaRowByRow) {
  const std::vector<float> logits{1, 2, 3, -1, 0, 0.5f};
  const auto result = log_probabilities(logits, 3);
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += std::exp(static_cast<double>(logits[row * 3 + i]));
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(result[row * 3 + i], logits[row * 3 + i] - std::log(sum), 2e-7);
  }
}

TEST(LogProbabilities, StayFiniteForHugeLogitsAndAtMostZero) {
  EXPECT_EQ(log_probabilities(std::vector<float>{1e30f, -1e30f}, 2), (std::vector<float>{0, -2e30f}));
  EXPECT_EQ(log_probabilities(std::vector<float>{-1e5f}, 1), (std::vector<float>{0}));
  EXPECT_TRUE(log_probabilities({}, 7).empty());
}

TEST(LogProbabilities, RefuseAPartOfARow) {
  expect_error<UsageError>([] { log_probabilities(std::vector<float>(5), 3); }, {"[rows, 3]", "5 elements"});
  expect_error<UsageError>([] { log_probabilities({}, 0); }, {"[rows, 0]"});
}

}  // namespace
}  // namespace sluice::training
