// Promises 1 and 3 of docs/design.md on an encoder-decoder Transformer: the encoder's output goes to every decoder layer, one table is tied
// over three nodes, and samples are padded.
#include "models/translation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::Outcome;
using sluice::testing::Pipeline;
using sluice::testing::random_tokens;

constexpr int64_t kSamples = 8, kVocabulary = 13, kSources = 6, kTargets = 5;

models::TranslationOptions tiny_translation() {
  models::TranslationOptions options;
  options.encoder_layers = options.decoder_layers = 2;
  options.dim = 8;
  options.heads = 2;
  options.head_width = 3;
  options.ffn = 12;
  options.vocab = kVocabulary;
  options.source_context = kSources;
  options.target_context = kTargets;
  options.dropout = 0.1;
  options.label_smoothing = 0.1;
  options.logit_clip = 3;
  return options;
}

/// [samples, tokens], of which those from each sample's length on are `padding`.
Tensor padded(const Tensor& tokens, const std::vector<double>& lengths, double padding) {
  std::vector<double> all = tokens.to_vector();
  for (int64_t i = 0; i < tokens.elements(); ++i)
    if (static_cast<double>(i % tokens.dim(1)) >= lengths[static_cast<size_t>(i / tokens.dim(1))]) all[static_cast<size_t>(i)] = padding;
  return tensor_of(all, tokens.shape(), DType::i32);
}

/// Lengths of 0 to all tokens; no labels where there is padding.
Batch sentences(uint64_t seed) {
  const auto tokens = [&](int64_t count, uint64_t number) { return random_tokens({kSamples, count}, kVocabulary, 10 * seed + number); };
  const Tensor source_length = random_tokens({kSamples}, kSources + 1, 10 * seed + 1);
  const Tensor target_length = random_tokens({kSamples}, kTargets + 1, 10 * seed + 2);
  return batch_of({{"source", padded(tokens(kSources, 3), source_length.to_vector(), 0)},
                   {"source_length", source_length},
                   {"target", padded(tokens(kTargets, 4), target_length.to_vector(), 0)},
                   {"target_length", target_length},
                   {"labels", padded(tokens(kTargets, 5), target_length.to_vector(), -100)}});
}

TEST(Translation, HasOneAnswerForEveryPipeline) {
  sluice::testing::expect_one_answer(models::translation_model(tiny_translation()), sentences);
}

TEST(Translation, HasOneAnswerForEverySchedule) {
  sluice::testing::expect_one_answer_of_every_schedule(models::translation_model(tiny_translation()), sentences);
}

TEST(Translation, HasOneAnswerWhereverItIsCut) {
  const layers::Graph graph = models::translation_model(tiny_translation());
  ASSERT_EQ(graph.nodes().size(), 20u);
  ASSERT_EQ(graph.nodes()[7].name, "encoder_norm");
  const Outcome first = sluice::testing::train(graph, sentences, {});
  const RematChoice some = RematNodes{{"encoder1.attention", "decoder0.cross_attention", "logits"}};
  // Within the encoder, between encoder and decoder, within the decoder, and all three.
  for (const Partition& cut : {Partition{{5, 15}}, Partition{{8, 12}}, Partition{{11, 9}}, Partition{{5, 3, 3, 9}}})
    for (const RematChoice& remat : {RematChoice(Remat::none), {Remat::full}, some})
      for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}) {
        const int stages = cut.stage_count();
        EXPECT_EQ(sluice::testing::train(graph, sentences, {stages, schedule, remat, cut}), first);
        if (stages == 2) continue;
        EXPECT_EQ(sluice::testing::train(graph, sentences, {2, {NamedSchedule::interleaved, 2}, remat, cut}), first);
      }
}

/// Losses of three steps, and the hash of the weights after them.
std::pair<std::vector<double>, std::string> trained(const std::string& names, Precision precision) {
  const layers::Graph graph = models::translation_model(tiny_translation());
  const PlanOptions options{.batch = kSamples, .micro_batches = 4, .schedule = NamedSchedule::one_f_one_b, .precision = precision};
  Trainer trainer(graph, plan(graph, devices(names), options), AdamW({.lr = 1e-2}), {.seed = 3});
  std::vector<double> losses;
  for (uint64_t step = 0; step < 3; ++step) losses.push_back(trainer.step(sentences(step)).loss);
  return {losses, trainer.weights_hash()};
}

/// The model after one step of plain gradient descent without dropout.
std::map<std::string, Tensor> after_a_gradient(int micro_batches) {
  auto options = tiny_translation();
  options.dropout = 0;
  const layers::Graph graph = models::translation_model(options);
  Trainer trainer(graph, plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = micro_batches}),
                  SGD({.lr = 1, .momentum = 0}), {.seed = 3});
  trainer.step(sentences(1));
  std::map<std::string, Tensor> model;
  for (const auto& [name, value] : trainer.model()) model[name] = value.clone();
  return model;
}

TEST(Translation, HasTheGradientOfTheWholeBatchFromMicroBatchesOfUnequalTokens) {
  const auto whole = after_a_gradient(1);
  for (const int micro_batches : {2, 3, 8})
    for (const auto& [name, value] : after_a_gradient(micro_batches)) {
      const auto expected = whole.at(name).to_vector(), got = value.to_vector();
      double largest = 0;
      for (const double x : expected) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * largest) << name << ", " << micro_batches;
    }
}

/// After a step of a model whose products are large enough to leave padding out, the ids of which are `padding`.
std::string hash_of_large_products(const std::string& names, int threads, double padding) {
  auto options = tiny_translation();
  options.encoder_layers = options.decoder_layers = 1;
  options.dim = 256, options.heads = 4, options.head_width = 64, options.ffn = 0;
  options.source_context = options.target_context = 64;
  constexpr int64_t kMany = 32;
  const auto tokens = [&](const Tensor& lengths, uint64_t number, double of_padding) {
    return padded(random_tokens({kMany, 64}, kVocabulary, number), lengths.to_vector(), of_padding);
  };
  const Tensor source_length = random_tokens({kMany}, 65, 1), target_length = random_tokens({kMany}, 65, 2);
  const layers::Graph graph = models::translation_model(options);
  const PlanOptions plan_options{.batch = kMany, .micro_batches = 2, .schedule = NamedSchedule::one_f_one_b};
  Trainer trainer(graph, plan(graph, devices(names, {.threads = threads}), plan_options), SGD({.lr = 1, .momentum = 0}), {.seed = 3});
  trainer.step(batch_of({{"source", tokens(source_length, 3, padding)},
                         {"source_length", source_length},
                         {"target", tokens(target_length, 4, padding)},
                         {"target_length", target_length},
                         {"labels", tokens(target_length, 5, -100)}}));
  return trainer.weights_hash();
}

TEST(Translation, HasOneAnswerWhereProductsLeavePaddingOut) {
  const std::string first = hash_of_large_products("cpu:0", 1, 0);
  EXPECT_EQ(hash_of_large_products("cpu:0", 2, 0), first);
  EXPECT_EQ(hash_of_large_products("cpu:0,cpu:1", 1, 0), first);
  EXPECT_EQ(hash_of_large_products("cpu:0,cpu:1,cpu:2", 1, 7), first);
}

TEST(Translation, HasOneAnswerInBf16NearThatOfF32) {
  const auto single = trained("cpu:0", Precision::f32), half = trained("cpu:0", Precision::bf16);
  EXPECT_EQ(trained("cpu:0,cpu:1,cpu:2", Precision::bf16), half);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(half.first[i], single.first[i], 0.02 * single.first[i]);
}

}  // namespace
}  // namespace sluice::parallel
