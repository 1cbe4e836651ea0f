#include "training/decoding/translator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cuda/cuda.h"
#include "layers/tables.h"
#include "models/translation.h"
#include "tests/expect_error.h"
#include "tests/training/language_models.h"

namespace sluice::training {
namespace {

using namespace sluice::testing;

constexpr int32_t kEnd = 1;
constexpr int64_t kVocabulary = 13, kSourceContext = 9, kTargetContext = 8;

const layers::Graph& small_model() {
  static const layers::Graph graph = models::translation_model({.encoder_layers = 2,
                                                                .decoder_layers = 2,
                                                                .dim = 16,
                                                                .heads = 2,
                                                                .head_width = 4,
                                                                .ffn = 24,
                                                                .vocab = kVocabulary,
                                                                .source_context = kSourceContext,
                                                                .target_context = kTargetContext});
  return graph;
}

std::vector<Translator::Sentence> sentences(size_t count) {
  std::vector<Translator::Sentence> all;
  for (size_t i = 0; i < count; ++i) {
    Translator::Sentence sentence{{}, static_cast<int32_t>(11 + i % 2)};
    for (size_t j = 0; j < 1 + i * 5 % kSourceContext; ++j) sentence.source.push_back(static_cast<int32_t>(2 + (i * 7 + j * j * 3) % 9));
    all.push_back(sentence);
  }
  return all;
}

TranslatorOptions options(int64_t beams, int64_t together = 4, int groups = 2) {
  return {.vocabulary = kVocabulary, .sentences = together, .groups = groups, .beams = beams, .end_token = kEnd, .never = {0, 11, 12}};
}

std::vector<Hypothesis> translate(Translator& translator, const std::vector<Translator::Sentence>& all) {
  std::vector<Hypothesis> found;
  translator.translate(all, [&](size_t number, const Hypothesis& best) {
    EXPECT_EQ(number, found.size());
    found.push_back(best);
  });
  return found;
}

/// log p of what follows a prefix, by running the whole graph for it without any cache.
std::vector<double> next_log_probabilities(const parallel::Weights& weights, const Translator::Sentence& sentence,
                                           const std::vector<int32_t>& prefix) {
  const layers::Graph& graph = small_model();
  const auto tensor = [](const std::vector<int32_t>& ids) {
    return tensor_of({ids.begin(), ids.end()}, {1, static_cast<int64_t>(ids.size())}, DType::i32);
  };
  const auto length = [](size_t tokens) { return tensor_of({static_cast<double>(tokens)}, {1}, DType::i32); };
  std::vector<int32_t> target{sentence.begin};
  target.insert(target.end(), prefix.begin(), prefix.end());
  std::vector<Tensor> values{tensor(sentence.source), length(sentence.source.size()), tensor(target), length(target.size()), Tensor()};
  layers::Tables tables(default_device(), DType::f32);
  for (int node = 0; node <= graph.output_node(); ++node) {
    const auto& description = graph.nodes()[static_cast<size_t>(node)];
    layers::Call call;
    call.training = false;
    call.tables = tables.of(*description.module);
    for (const int value : description.inputs) call.inputs.emplace_back(values[static_cast<size_t>(value)]);
    for (const int parameter : description.parameters)
      call.parameters.emplace_back(weights.at(graph.parameters()[static_cast<size_t>(parameter)].name));
    values.push_back(description.module->forward(call).value());
  }
  const auto steps = static_cast<int64_t>(target.size());
  auto logits = values.back().slice(1, steps - 1, steps).to_vector();
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (double& logit : logits) logit -= std::log(sum);
  return logits;
}

/// Beam search as one would first write it: all continuations of all beams in a list, sorted.
std::vector<int32_t> plain_search(const parallel::Weights& weights, const Translator::Sentence& sentence, size_t beams) {
  struct Beam {
    std::vector<int32_t> tokens;
    double log_probability;
  };
  const auto score = [](const Beam& beam) {  // the end token counts
    return beam.log_probability / std::pow((5.0 + static_cast<double>(beam.tokens.size())) / 6.0, 0.6);
  };
  std::vector<Beam> live{{{}, 0}}, finished;
  for (int64_t length = 1; length <= kTargetContext && finished.size() < beams; ++length) {
    std::vector<Beam> all;
    for (const Beam& beam : live) {
      const auto next = next_log_probabilities(weights, sentence, beam.tokens);
      for (int32_t token = 1; token < 11; ++token) {
        all.push_back(beam);
        all.back().tokens.push_back(token);
        all.back().log_probability += next[static_cast<size_t>(token)];
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &Beam::log_probability);
    live.clear();
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const bool ends = all[rank].tokens.back() == kEnd;
      if (ends && rank < beams) finished.push_back(all[rank]);
      if (!ends && live.size() < beams) live.push_back(all[rank]);
    }
  }
  const bool none = finished.empty();
  const auto& candidates = none ? live : finished;
  auto best = std::ranges::max_element(candidates, {}, score)->tokens;
  if (!none) best.pop_back();
  return best;
}

TEST(Translator, FindsWhatAPlainBeamSearchWithoutCachesFinds) {
  const auto weights = drawn_weights(small_model());
  const auto all = sentences(200);
  for (const int64_t beams : {1, 3}) {
    Translator translator(small_model(), weights, devices("cpu:0"), options(beams));
    const auto found = translate(translator, all);
    ASSERT_EQ(found.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(found[i].tokens, plain_search(weights, all[i], static_cast<size_t>(beams))) << "sentence " << i << ", beams " << beams;
  }
}

TEST(Translator, GivesOneAnswerWhateverTheStagesAndTheBatches) {
  const auto weights = drawn_weights(small_model());
  const auto all = sentences(23);
  Translator one_by_one(small_model(), weights, devices("cpu:0"), options(3, 1, 1));
  std::vector<std::vector<int32_t>> expected;
  for (const auto& sentence : all) expected.push_back(translate(one_by_one, {sentence}).at(0).tokens);
  for (const char* on : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2,cpu:3"})
    for (const auto& [together, groups] : {std::pair(1, 3), std::pair(5, 2), std::pair(30, 1)}) {
      Translator translator(small_model(), weights, devices(on), options(3, together, groups));
      std::vector<std::vector<int32_t>> tokens;
      for (const auto& best : translate(translator, all)) tokens.push_back(best.tokens);
      EXPECT_EQ(tokens, expected) << on << ", " << together << " sentences in " << groups << " groups";
    }
}

/// On a GPU, or on the emulated one.
TEST(CudaTranslator, FindsWhatTheCpuFindsOverAnyNumberOfStages) {
  if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const auto weights = drawn_weights(small_model());
  const auto all = sentences(5);
  Translator on_cpu(small_model(), weights, devices("cpu:0"), options(2));
  const auto expected = translate(on_cpu, all);
  for (const char* on : {"cuda:0", "cuda:0,cuda:1"}) {
    if (std::string(on) != "cuda:0" && cuda_device_count() < 2) continue;
    Translator translator(small_model(), weights, devices(on), options(2, 3));
    const auto found = translate(translator, all);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(found[i].tokens, expected[i].tokens) << "sentence " << i << " on " << on;
  }
}

TEST(Translator, SaysWhatItNeeds) {
  const auto weights = drawn_weights(small_model());
  const auto lm = models::transformer_lm(small_language_model());
  expect_error<UsageError>([&] { Translator(lm, drawn_weights(lm), devices("cpu:0"), options(1)); }, {"'target'"});
  expect_error<UsageError>([&] { Translator(small_model(), weights, devices("cpu:0"), options(0)); }, {"beams >= 1"});
  Translator translator(small_model(), weights, devices("cpu:0"), options(1));
  expect_error<UsageError>([&] { translate(translator, {{{2, 3}, 11}, {{}, 11}}); }, {"sentence 1", "got 0"});
  expect_error<UsageError>([&] { translate(translator, {{std::vector<int32_t>(10, 2), 11}}); }, {"sentence 0", "1 to 9", "got 10"});
  EXPECT_TRUE(translate(translator, {}).empty());
  TranslatorOptions other = options(1);
  other.vocabulary = 15;
  Translator wrong(small_model(), weights, devices("cpu:0"), other);
  expect_error<UsageError>([&] { translate(wrong, {{{2, 3}, 11}}); }, {"13 tokens, got 15"});
}

}  // namespace
}  // namespace sluice::training
