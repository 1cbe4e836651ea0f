#include "core/cuda/choices.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <limits>
#include <thread>

#include "core/cuda/algorithm_words.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/file/file.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

const std::string kKey = "NVIDIA H200, driver 13000, cuBLAS 130100: a product";
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr TuningLimits kEnough{60, 8};

/// Kinds of call whose algorithms, "a0" and so on, take the seconds that a test names.
class ChoicesTest : public ::testing::Test {
 protected:
  CallKind kind(std::vector<double> seconds, const std::string& key = kKey) {
    CallKind kind{.key = key,
                  .can_run = [this](const std::string& choice) { return choice != refused_; },
                  .untried = [] { return std::string("a0"); },
                  .candidates = [this, seconds](int most) { return candidates(seconds, most); }};
    return kind;
  }
  std::vector<Candidate> candidates(const std::vector<double>& seconds, int most) {
    std::vector<Candidate> all;
    for (size_t i = 0; i < seconds.size() && static_cast<int>(i) < most; ++i)
      all.push_back({join("a", i), [this, time = seconds[i]] { return ++trials_, time; }});
    return all;
  }
  static std::string tuned(Choices& choices, const CallKind& kind, const TuningLimits& limits = kEnough) {
    choices.begin_trials(limits);
    const std::string choice = choices.choose(kind);
    choices.end_trials();
    return choice;
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "new" / "algorithms.json";
  Choices choices_{file_};
  std::string refused_;
  int trials_ = 0;
};

TEST_F(ChoicesTest, TriesInAScopeAlone) {
  EXPECT_EQ(choices_.choose(kind({2, 1})), "a0");
  EXPECT_EQ(trials_, 0);
  EXPECT_EQ(tuned(choices_, kind({2, 1})), "a1") << "what was not tried is chosen anew";
  EXPECT_EQ(trials_, 2);
  EXPECT_EQ(choices_.choose(kind({1, 2})), "a1");
  EXPECT_EQ(tuned(choices_, kind({1, 2})), "a1") << "what was tried stays";
  EXPECT_EQ(choices_.choose(kind({2, 1}, "other")), "a0");
  EXPECT_EQ(trials_, 2);
}

TEST_F(ChoicesTest, TakesTheFastestThatRunsAndIsRight) {
  EXPECT_EQ(tuned(choices_, kind({3, kNever, 2, 2}, "first of equals")), "a2");
  EXPECT_EQ(tuned(choices_, kind({kNever, kNever}, "none")), "a0");
  CallKind wrong = kind({}, "wrong");
  wrong.candidates = [](int) {
    return std::vector<Candidate>{{"a0", [] { return 3.0; }}, {"a1", [] { return 1.0; }, [] { return false; }}, {"a2", [] { return 2.0; }}};
  };
  EXPECT_EQ(tuned(choices_, wrong), "a2");
}

TEST_F(ChoicesTest, TriesNothingWithoutSecondsOrInACapture) {
  EXPECT_EQ(tuned(choices_, kind({2, 1}), {0, 8}), "a0");
  CallKind captured = kind({2, 1});
  captured.may_be_tried = false;
  EXPECT_EQ(tuned(choices_, captured), "a0");
  EXPECT_EQ(trials_, 0);
  EXPECT_EQ(folder_.files(), 0u);
}

TEST_F(ChoicesTest, TriesNoMoreCandidatesThanTheLimit) {
  EXPECT_EQ(tuned(choices_, kind({3, 2, 1}), {60, 2}), "a1");
  EXPECT_EQ(trials_, 2);
}

TEST_F(ChoicesTest, EndsWithItsSecondsAndKeepsNothingThatWasCutShort) {
  const auto slow = [&](const std::string& key) {
    CallKind slow = kind({}, key);
    slow.candidates = [this](int most) {
      auto all = candidates({3, 2, 1}, most);
      all[1].seconds = [] { return std::this_thread::sleep_for(std::chrono::milliseconds(300)), 2.0; };
      return all;
    };
    return slow;
  };
  choices_.begin_trials({0.2, 8});
  EXPECT_EQ(choices_.choose(slow("one")), "a1");
  EXPECT_EQ(choices_.choose(slow("two")), "a0");
  choices_.end_trials();
  EXPECT_EQ(trials_, 1);
  EXPECT_EQ(choices_.choose(slow("one")), "a1");
  EXPECT_EQ(folder_.files(), 0u);
}

TEST_F(ChoicesTest, KeepsWhatItTriedInItsFile) {
  tuned(choices_, kind({2, 1}));
  Choices next(file_);
  EXPECT_EQ(next.choose(kind({2, 1})), "a1");
  EXPECT_EQ(tuned(next, kind({2, 1})), "a1");
  EXPECT_EQ(trials_, 2);
  EXPECT_NE(read_file(file_).find("\"candidates\": 8"), std::string::npos) << read_file(file_);
  CallKind passing = kind({2, 1}, "passing");
  passing.is_kept = false;
  EXPECT_EQ(tuned(choices_, passing), "a1");
  EXPECT_EQ(Choices(file_).choose(passing), "a0");
}

TEST_F(ChoicesTest, TriesAgainWhatWasTriedWithFewerCandidates) {
  tuned(choices_, kind({3, 2, 1}), {60, 2});
  Choices next(file_);
  EXPECT_EQ(next.choose(kind({3, 2, 1})), "a1");
  Choices thorough(file_);
  EXPECT_EQ(tuned(thorough, kind({3, 2, 1}), {60, 3}), "a2");
  Choices again(file_);
  EXPECT_EQ(tuned(again, kind({3, 2, 1}), {60, 2}), "a2");
  EXPECT_EQ(trials_, 5);
}

TEST_F(ChoicesTest, TakesNothingFromTheFileThatCannotRun) {
  tuned(choices_, kind({2, 1}));
  refused_ = "a1";
  EXPECT_EQ(Choices(file_).choose(kind({2, 1})), "a0");
}

TEST_F(ChoicesTest, AdoptedOnesWinOverTheFileAndOverTrials) {
  tuned(choices_, kind({2, 1}));
  Choices next(file_);
  next.adopt({{kKey, "a7"}});
  EXPECT_EQ(next.choose(kind({2, 1})), "a7");
  EXPECT_EQ(tuned(next, kind({2, 1})), "a7");
  EXPECT_EQ(trials_, 2);
  EXPECT_EQ(next.all(), (GpuChoices{{kKey, "a7"}}));
}

TEST_F(ChoicesTest, ForgetsTheFileOutsideOfScopesOnceItHasAdopted) {
  tuned(choices_, kind({2, 1}));
  Choices next(file_);
  next.adopt({});
  EXPECT_EQ(next.choose(kind({2, 1})), "a0") << "another process that adopts the same may have another file";
  EXPECT_EQ(tuned(next, kind({2, 1})), "a0") << "and it stays";
  Choices in_scope(file_);
  in_scope.adopt({});
  EXPECT_EQ(tuned(in_scope, kind({2, 1})), "a1");
  EXPECT_EQ(trials_, 2);
}

TEST_F(ChoicesTest, SettlesWithTheFirstAdoptionWhatWasNotTried) {
  choices_.choose(kind({2, 1}));
  choices_.adopt({});
  EXPECT_EQ(tuned(choices_, kind({2, 1})), "a0");
  EXPECT_EQ(choices_.all(), (GpuChoices{{kKey, "a0"}}));
}

TEST_F(ChoicesTest, HasAnotherVersionWhereAChoiceMayBeAnother) {
  const uint64_t first = choices_.version();
  choices_.adopt({{kKey, "a7"}});
  const uint64_t adopted = choices_.version();
  EXPECT_NE(adopted, first);
  choices_.adopt({{kKey, "a7"}});
  EXPECT_EQ(choices_.version(), adopted) << "what devices have made of the choices stays";
  choices_.begin_trials(kEnough);
  choices_.end_trials();
  EXPECT_NE(choices_.version(), adopted);
}

TEST_F(ChoicesTest, KeepsWhatAnotherProcessWrote) {
  Choices other(file_);
  tuned(choices_, kind({2, 1}, "one"));
  tuned(other, kind({2, 1}, "other"));
  Choices next(file_);
  EXPECT_EQ(next.choose(kind({2, 1}, "one")), "a1");
  EXPECT_EQ(next.choose(kind({2, 1}, "other")), "a1");
}

TEST_F(ChoicesTest, TakesADamagedOrForeignFileForAnEmptyOneAndReplacesIt) {
  const std::string entry = R"({"candidates": 8, "choice": "a1"})";
  for (const std::string& text :
       {std::string(), std::string(R"({"format": 1, "algo)"), std::string("[]"), std::string("\xff\x00\x01"),
        std::string(R"({"format": "1"})"), std::string(R"({"format": 1, "algorithms": [1]})"),
        R"({"format": 2, "algorithms": {")" + kKey + "\": " + entry + "}}", R"({"format": 1, "algorithms": {")" + kKey + R"(": "a1"}})",
        R"({"format": 1, "algorithms": {")" + kKey + R"(": {"choice": "a1"}}})",
        R"({"format": 1, "algorithms": {")" + kKey + R"(": {"candidates": "8", "choice": "a1"}}})",
        R"({"format": 1, "algorithms": {")" + kKey + R"(": {"candidates": 8, "choice": 1}}})"}) {
    const auto file = folder_.write("algorithms.json", text);
    Choices choices(file);
    EXPECT_EQ(choices.choose(kind({3, 2, 1})), "a0") << text;
    EXPECT_EQ(tuned(choices, kind({3, 2, 1})), "a2") << text;
    EXPECT_EQ(Choices(file).choose(kind({3, 2, 1})), "a2") << text;
  }
}

TEST_F(ChoicesTest, ServesTheProcessWhereTheFileCannotBeWritten) {
  Choices choices(folder_.write("file", "") / "algorithms.json");
  EXPECT_EQ(tuned(choices, kind({2, 1})), "a1");
  EXPECT_EQ(choices.choose(kind({2, 1})), "a1");
  Choices none({});
  EXPECT_EQ(tuned(none, kind({2, 1})), "a1");
}

TEST_F(ChoicesTest, KnowsWhetherItHasAnyForAKindOfGpu) {
  const std::string prefix = gpu_prefix({.name = "NVIDIA H200", .driver_version = 13000}) + "cuBLAS 130100: ";
  EXPECT_EQ(prefix, "NVIDIA H200, driver 13000, cuBLAS 130100: ");
  choices_.adopt({{"NVIDIA A100, driver 13000, cuBLAS 130100: a product", "a0"}, {"NVIDIA H200, driver 13000, cuDNN 9.19.0: x", "a0"}});
  EXPECT_FALSE(choices_.has_any(prefix));
  choices_.adopt({{kKey, "a0"}});
  EXPECT_TRUE(choices_.has_any(prefix));
}

TEST(AlgorithmWords, AreDigitsThatAreReadBack) {
  const cublas::AlgorithmWords words = {1, 0x0123456789abcdef, 0, ~0ull, 5, 6, 7, 8};
  const std::string text = cublas::text_of(words);
  EXPECT_TRUE(text.starts_with("00000000000000010123456789abcdef0000000000000000ffffffffffffffff")) << text;
  EXPECT_EQ(cublas::words_of(text), words);
  for (const std::string& other : {std::string(), text + "0", text.substr(1), text.substr(1) + "g", std::string("own kernels")})
    EXPECT_EQ(cublas::words_of(other), std::nullopt) << other;
}

}  // namespace
}  // namespace sluice
