#include "training/decoding/decoder.h"

#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/reduction.h"
#include "core/cuda/cuda.h"
#include "layers/cross_entropy.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "models/translation.h"
#include "tests/expect_error.h"
#include "tests/training/language_models.h"

namespace sluice::training {
namespace {

using namespace sluice::testing;

const Decoder::Inputs kNothing;

Tensor tokens_of(const std::vector<std::vector<int32_t>>& rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return tensor_of(all, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, DType::i32);
}

std::vector<double> row_of(const Tensor& logits, int64_t row) { return logits.slice(0, row, row + 1).to_vector(); }

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(Decoder, ContinuesEachRowOfEachGroupWithTheParentThatItIsGiven) {
  const auto graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  Decoder decoder(graph, weights, devices("cpu:0,cpu:1"), {.rows = 2, .groups = 2});
  const std::vector<Decoder::Feed> begin{{.group = 1, .tokens = tokens_of({{1, 2, 3}, {4, 5, 6}}), .begins_with = &kNothing}};
  const Tensor first = decoder.advance(begin);
  expect_close(row_of(first, 0), logits_of(graph, weights, {1, 2, 3}));
  expect_close(row_of(first, 1), logits_of(graph, weights, {4, 5, 6}));

  const std::vector<Decoder::Feed> both{{.group = 0, .tokens = tokens_of({{7}, {8}}), .begins_with = &kNothing},
                                        {.group = 1, .tokens = tokens_of({{9}, {10}}), .parents = {1, 0}}};
  const Tensor second = decoder.advance(both);
  expect_close(row_of(second, 0), logits_of(graph, weights, {7}));
  expect_close(row_of(second, 1), logits_of(graph, weights, {8}));
  expect_close(row_of(second, 2), logits_of(graph, weights, {4, 5, 6, 9}));
  expect_close(row_of(second, 3), logits_of(graph, weights, {1, 2, 3, 10}));

  const std::vector<Decoder::Feed> third{{.group = 1, .tokens = tokens_of({{11}, {12}}), .parents = {0, 0}},
                                         {.group = 0, .tokens = tokens_of({{13}, {14}})}};
  const Tensor last = decoder.advance(third);
  expect_close(row_of(last, 0), logits_of(graph, weights, {4, 5, 6, 9, 11}));
  expect_close(row_of(last, 1), logits_of(graph, weights, {4, 5, 6, 9, 12}));
  expect_close(row_of(last, 2), logits_of(graph, weights, {7, 13}));
  expect_close(row_of(last, 3), logits_of(graph, weights, {8, 14}));
}

/// Fills two groups of two rows to the end, and returns all logits.
std::vector<double> run_to_the_end(Decoder& decoder, int64_t capacity) {
  std::vector<double> all;
  for (int64_t i = 0; i < capacity; ++i) {
    std::vector<Decoder::Feed> feeds;
    for (const int group : {0, 1}) {
      const auto token = static_cast<int32_t>((5 * i + group) % 23);
      feeds.push_back({.group = group,
                       .tokens = tokens_of({{token}, {(token + 7) % 23}}),
                       .parents = i == 0 ? std::vector<int32_t>() : std::vector<int32_t>{1, 0},
                       .begins_with = i == 0 ? &kNothing : nullptr});
    }
    const auto logits = decoder.advance(feeds).to_vector();
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(Decoder, GivesOneAnswerWhateverTheStagesAndTakesTheBytesThatWereCounted) {
  const auto graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  std::vector<double> expected;
  for (const char* on : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2,cpu:3"})
    for (const auto precision : {Precision::f32, Precision::bf16}) {
      Decoder decoder(graph, weights, devices(on), {.rows = 2, .groups = 2, .pipeline = {.precision = precision}});
      const auto logits = run_to_the_end(decoder, 20);
      const auto& devices = decoder.pipeline().devices();
      for (size_t device = 0; device < devices.size(); ++device)
        EXPECT_EQ(devices[device]->peak_bytes(), decoder.pipeline().predicted_peak_bytes()[device]) << on << ", device " << device;
      if (precision == Precision::bf16) continue;
      if (expected.empty()) expected = logits;
      EXPECT_EQ(logits, expected) << on;
    }
}

/// On a GPU, or on the emulated one.
TEST(CudaDecoder, GivesTheCpusLogitsInTheBytesThatWereCounted) {
  if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const auto graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  Decoder on_cpu(graph, weights, devices("cpu:0"), {.rows = 2, .groups = 2}),
      on_gpu(graph, weights, devices("cuda:0"), {.rows = 2, .groups = 2});
  expect_close(run_to_the_end(on_gpu, 20), run_to_the_end(on_cpu, 20));
  EXPECT_EQ(on_gpu.pipeline().devices()[0]->peak_bytes(), on_gpu.pipeline().predicted_peak_bytes()[0]);
}

TEST(Decoder, IsRefusedBeforeItRunsWhereItsCachesWouldNotFit) {
  const auto graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  const auto make = [&](int groups) {
    return Decoder(graph, weights, {make_device("cpu:0", {.budget_bytes = 256 << 10})}, {.rows = 2, .groups = groups});
  };
  const std::vector<Decoder::Feed> begin{{.tokens = tokens_of({{1}, {2}}), .begins_with = &kNothing}};
  EXPECT_EQ(make(1).advance(begin).shape(), (Shape{2, 23}));
  expect_error<OutOfMemory>([&] { make(100); }, {"cpu:0", "lacks"});
}

/// The mean of the source's embeddings is added to each token: a small encoder-decoder model.
class Add : public layers::Module {
 public:
  layers::InputCount input_count() const override { return {2, 2}; }
  Var forward(const layers::Call& call) const override { return add(call.inputs[0], mean(call.inputs[1], {1}, true)); }
};

layers::Graph encoder_decoder() {
  layers::Graph graph;
  const auto source = graph.input("source", {4}, DType::i32), target = graph.input("target", {8}, DType::i32);
  const auto labels = graph.input("labels", {8}, DType::i32);
  const auto memory = graph.add("encoder", layers::Linear(6, 6), graph.add("source_embedding", layers::Embedding(9, 6, 1), source));
  const auto x = graph.add("target_embedding", layers::Embedding(9, 6, 1), target);
  const auto logits = graph.add("logits", layers::Linear(6, 9), graph.add("add", Add(), {x, memory}));
  graph.tie("source_embedding.weight", "target_embedding.weight");
  graph.output(logits);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, labels}));
  return graph;
}

TEST(Decoder, RunsWhatTheTokensDoNotReachOnceAGroup) {
  const auto graph = encoder_decoder();
  const auto weights = drawn_weights(graph);
  for (const char* on : {"cpu:0", "cpu:0,cpu:1,cpu:2"}) {
    Decoder decoder(graph, weights, devices(on), {.tokens = "target", .rows = 2});
    const auto context = decoder.encode({{"source", tokens_of({{1, 2, 3, 4}, {5, 6, 7, 8}})}});
    ASSERT_EQ(context.size(), 1u);
    EXPECT_EQ(context.at("encoder").shape(), (Shape{2, 4, 6}));
    const std::vector<Decoder::Feed> begin{{.tokens = tokens_of({{1}, {2}}), .begins_with = &context}};
    decoder.advance(begin);
    const std::vector<Decoder::Feed> next{{.tokens = tokens_of({{3}, {3}})}};
    const auto logits = decoder.advance(next);
    EXPECT_NE(row_of(logits, 0), row_of(logits, 1)) << "one token, two sources";
    const auto other = decoder.encode({{"source", tokens_of({{5, 6, 7, 8}, {5, 6, 7, 8}})}});
    const std::vector<Decoder::Feed> again{{.tokens = tokens_of({{3}, {3}}), .begins_with = &other}};
    const auto same = decoder.advance(again);
    EXPECT_EQ(row_of(same, 0), row_of(same, 1));
    EXPECT_EQ(row_of(same, 1), row_of(logits, 1));
    expect_error<UsageError>([&] { decoder.encode({}); }, {"needs input 'source'"});
  }
}

constexpr int64_t kTarget = 5;

/// Of long sources, so that an encoder needs more than a run of the decoder, or of short ones.
layers::Graph small_translation(int64_t source_context) {
  return models::translation_model({.encoder_layers = 1,
                                    .decoder_layers = 1,
                                    .dim = 8,
                                    .heads = 2,
                                    .head_width = 4,
                                    .vocab = 23,
                                    .source_context = source_context,
                                    .target_context = kTarget});
}

Decoder::Inputs sources(int64_t source_context) {
  return {{"source", full({2, source_context}, 3, DType::i32)},
          {"source_length", full({2}, static_cast<double>(source_context), DType::i32)},
          {"target_length", full({2}, 1, DType::i32)}};
}

/// Two groups of two rows, all caches full, and one more source encoded then.
void fill_and_encode(Decoder& decoder, int64_t source_context) {
  const auto inputs = sources(source_context);
  const auto context = decoder.encode(inputs);
  for (int64_t i = 0; i < kTarget; ++i) {
    std::vector<Decoder::Feed> feeds;
    for (const int group : {0, 1})
      feeds.push_back({.group = group,
                       .tokens = tokens_of({{1}, {2}}),
                       .parents = i == 0 ? std::vector<int32_t>() : std::vector<int32_t>{1, 0},
                       .begins_with = i == 0 ? &context : nullptr});
    decoder.advance(feeds);
  }
  decoder.encode(inputs);
}

TEST(Decoder, CountsTheEncoderAndTheDecoderOnOneDeviceTogether) {
  for (const int64_t source_context : {1, 200}) {
    const auto graph = small_translation(source_context);
    const auto weights = drawn_weights(graph);
    const DecoderOptions options{.tokens = "target", .rows = 2, .groups = 2};
    for (const char* on : {"cpu:0", "cpu:0,cpu:1"}) {
      Decoder decoder(graph, weights, devices(on), options);
      fill_and_encode(decoder, source_context);
      const auto predicted = decoder.predicted_peak_bytes();
      const auto& used = decoder.pipeline().devices();
      const bool encoder_needs_most = predicted != decoder.pipeline().predicted_peak_bytes();
      EXPECT_EQ(encoder_needs_most, source_context == 200) << on;
      for (size_t device = 0; device < used.size(); ++device)
        EXPECT_EQ(used[device]->peak_bytes(), predicted[device]) << on << ", device " << device << ", source " << source_context;

      const auto within = [&](int64_t less) {
        std::vector<DevicePtr> budgeted;
        for (size_t device = 0; device < used.size(); ++device)
          budgeted.push_back(make_device(used[device]->name(), {.budget_bytes = predicted[device] - less}));
        Decoder within_budgets(graph, weights, budgeted, options);  // refuses when it is made what any source would need
        if (encoder_needs_most) within_budgets.encode(sources(source_context));
      };
      within(0);
      expect_error<OutOfMemory>([&] { within(1); }, {"cpu:", "lacks 1"});
    }
  }
}

TEST(Decoder, SaysWhatItNeeds) {
  const auto graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  expect_error<UsageError>([&] { Decoder(graph, weights, devices("cpu:0"), {.tokens = "targets"}); }, {"'targets'"});
  expect_error<UsageError>([&] { Decoder(graph, weights, devices("cpu:0"), {.rows = 0}); }, {"rows"});
  Decoder decoder(graph, weights, devices("cpu:0,cpu:1"), {.rows = 1, .groups = 2, .capacity = 4});
  const auto advance = [&](Decoder::Feed feed) { return decoder.advance(std::span(&feed, 1)); };
  expect_error<UsageError>([&] { decoder.advance({}); }, {"at least one group"});
  expect_error<UsageError>([&] { advance({.group = 2, .tokens = tokens_of({{1}}), .begins_with = &kNothing}); }, {"0 to 1, got 2"});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1}})}); }, {"group 0 has not begun"});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1}, {2}}), .begins_with = &kNothing}); }, {"[1, 1]", "[2, 1]"});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1, 2, 3, 4, 5}}), .begins_with = &kNothing}); }, {"room for 4 tokens"});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{99}}), .begins_with = &kNothing}); }, {"99"});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1}})}); }, {"group 0 has not begun"});  // since the failure
  advance({.tokens = tokens_of({{1}}), .begins_with = &kNothing});
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1}}), .parents = {1}}); }, {"parents from 0 to 0, got 1"});
  decoder.end(0);
  expect_error<UsageError>([&] { advance({.tokens = tokens_of({{1}})}); }, {"group 0 has not begun"});
}

}  // namespace
}  // namespace sluice::training
