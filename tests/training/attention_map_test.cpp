#include "training/attention_map.h"

#include <gtest/gtest.h>

#include <numeric>

#include "layers/attention_weights.h"
#include "models/transformer.h"
#include "models/translation.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"
#include "tests/training/language_models.h"

namespace sluice::training {
namespace {

using namespace sluice::testing;

constexpr int64_t kDim = 12, kHeads = 3, kHeadWidth = 5, kInner = kHeads * kHeadWidth, kSource = 6, kTarget = 4;
const std::vector<int64_t> kSourceLengths{6, 1, 4}, kTargetLengths{3, 4, 1};
constexpr int64_t kSamples = 3;

layers::Graph translation() {
  return models::translation_model({.encoder_layers = 1,
                                    .decoder_layers = 2,
                                    .dim = kDim,
                                    .heads = kHeads,
                                    .head_width = kHeadWidth,
                                    .ffn = 16,
                                    .vocab = 11,
                                    .source_context = 9,
                                    .target_context = 8});
}

Tensor lengths(const std::vector<int64_t>& of) { return tensor_of({of.begin(), of.end()}, {kSamples}, DType::i32); }

Tensor tokens(int64_t count, int64_t step) {
  std::vector<double> ids;
  for (int64_t i = 0; i < kSamples * count; ++i) ids.push_back(static_cast<double>(i * step % 11));
  return tensor_of(ids, {kSamples, count}, DType::i32);
}

std::map<std::string, Tensor> samples() {
  return {{"source", tokens(kSource, 3)},
          {"source_length", lengths(kSourceLengths)},
          {"target", tokens(kTarget, 7)},
          {"target_length", lengths(kTargetLengths)}};
}

parallel::Weights rounded(parallel::Weights weights, Precision precision) {
  for (auto& [name, weight] : weights) weight = in_working_dtype(weight, precision);
  return weights;
}

/// What the pipeline makes of the samples at a value of the graph, as a list.
std::vector<double> value_at(const layers::Graph& graph, const parallel::Weights& weights, int value, Precision precision) {
  return parallel::InferencePipeline(graph.upstream_of(value), devices("cpu:0"), weights, {.precision = precision})
      .run(batch_of(samples()))
      .to_vector();
}

/// x [rows, in] times weight [out, in], plus bias.
std::vector<double> linear(const std::vector<double>& x, const parallel::Weights& weights, const std::string& name) {
  const Tensor& weight = weights.at(name + ".weight");
  const auto w = weight.to_vector(), b = weights.at(name + ".bias").to_vector();
  const int64_t in = weight.dim(1);
  std::vector<double> y;
  for (auto row = x.begin(); row != x.end(); row += in)
    for (size_t i = 0; i < b.size(); ++i) y.push_back(std::inner_product(row, row + in, w.begin() + static_cast<int64_t>(i) * in, b[i]));
  return y;
}

/// Weights [B, H, T, S] times the values of kv [B, S, 2 H N] -> [B, T, H N].
std::vector<double> weighted_values(const std::vector<double>& weights, const std::vector<double>& kv) {
  std::vector<double> y(kSamples * kTarget * kInner);
  size_t at = 0;
  for (int64_t b = 0; b < kSamples; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t t = 0; t < kTarget; ++t)
        for (int64_t s = 0; s < kSource; ++s, ++at)
          for (int64_t n = 0; n < kHeadWidth; ++n)
            y[static_cast<size_t>((b * kTarget + t) * kInner + h * kHeadWidth + n)] +=
                weights[at] * kv[static_cast<size_t>((b * kSource + s) * 2 * kInner + kInner + h * kHeadWidth + n)];
  return y;
}

/// So the plot of a report is of what the model computes, by another way than the one that made it.
TEST(AttentionMap, TimesTheValuesIsWhatTheLayerPutsOut) {
  const layers::Graph graph = translation();
  for (const auto precision : {Precision::f32, Precision::bf16})
    for (const std::string name : {"decoder0.cross_attention", "decoder1.cross_attention"}) {
      const auto weights = rounded(drawn_weights(graph), precision);
      const Tensor map = attention_map(graph, weights, devices("cpu:0,cpu:1"), name, samples(), {.precision = precision});
      ASSERT_EQ(map.shape(), (Shape{kSamples, kHeads, kTarget, kSource}));
      int node = 0;
      while (graph.nodes()[static_cast<size_t>(node)].name != name) ++node;
      const auto& inputs = graph.nodes()[static_cast<size_t>(node)].inputs;
      const auto residual = value_at(graph, weights, inputs[0], precision), memory = value_at(graph, weights, inputs[1], precision);
      const auto y = value_at(graph, weights, graph.value_of(node), precision);
      const auto branch = linear(weighted_values(map.to_vector(), linear(memory, weights, name + ".kv")), weights, name + ".out");
      double largest = 1;
      for (const double value : y) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(residual[i] + branch[i], y[i], tolerance_of(working_dtype(precision)).value * largest) << name << ", element " << i;
    }
}

TEST(AttentionMap, RowsSumToOneAndSeeNoPadding) {
  const layers::Graph graph = translation();
  const auto weights = drawn_weights(graph);
  const auto map = attention_map(graph, weights, devices("cpu:0"), "decoder1.cross_attention", samples()).to_vector();
  auto at = map.begin();
  for (size_t b = 0; b < kSamples; ++b)
    for (int64_t row = 0; row < kHeads * kTarget; ++row, at += kSource) {
      const bool is_padding = row % kTarget >= kTargetLengths[b];
      EXPECT_NEAR(std::accumulate(at, at + kSource, 0.0), is_padding ? 0 : 1, 1e-12);
      EXPECT_EQ(std::accumulate(at + kSourceLengths[b], at + kSource, 0.0), 0);
    }
}

TEST(AttentionMap, OfCausalAttentionSeesNothingThatComesLater) {
  const layers::Graph graph = models::transformer_lm(small_language_model());
  const auto weights = drawn_weights(graph);
  std::string name;
  for (const auto& node : graph.nodes())
    if (node.name.ends_with("attention")) name = node.name;
  const Tensor map = attention_map(graph, weights, devices("cpu:0"), name, {{graph.inputs()[0].name, tokens(kSource, 5)}});
  ASSERT_EQ(map.shape(), (Shape{kSamples, 2, kSource, kSource}));
  const auto elements = map.to_vector();
  for (int64_t i = 0; i < kSource; ++i)
    for (int64_t j = 0; j < kSource; ++j) EXPECT_EQ(elements[static_cast<size_t>(i * kSource + j)] > 0, j <= i) << i << ", " << j;
}

TEST(AttentionMap, RefusesLengthsBeyondTheTokens) {
  const Tensor q = full({2, 3, 2, 4}, 1, DType::f32), k = full({2, 5, 1, 4}, 1, DType::f32);
  const auto with = [&](const Tensor& query_lengths, const Tensor& key_lengths) {
    return [=] { layers::attention_weights(q, k, {.query_lengths = query_lengths, .key_lengths = key_lengths}); };
  };
  const auto of = [](double first, double second) { return tensor_of({first, second}, {2}, DType::i32); };
  EXPECT_EQ(layers::attention_weights(q, k, {.query_lengths = of(3, 0), .key_lengths = of(5, 2)}).shape(), (Shape{2, 2, 3, 5}));
  expect_error<UsageError>(with(of(3, 4), {}), {"query lengths from 0 to 3, got 4 of sample 1"});
  expect_error<UsageError>(with({}, of(6, 5)), {"key lengths from 0 to 5, got 6 of sample 0"});
  expect_error<UsageError>(with({}, of(-1, 5)), {"got -1 of sample 0"});
  expect_error<UsageError>(with({}, full({3}, 1, DType::i32)), {"key lengths [2], got [3]"});
}

TEST(AttentionMap, SaysWhatItNeeds) {
  const layers::Graph graph = translation();
  const auto weights = drawn_weights(graph);
  const auto of = [&](const std::string& node, const std::map<std::string, Tensor>& inputs, const parallel::Weights& with) {
    return [&graph, node, inputs, with] { attention_map(graph, with, devices("cpu:0"), node, inputs); };
  };
  expect_error<UsageError>(of("decoder1.cross_atention", samples(), weights), {"'decoder1.cross_atention'", "decoder1.cross_attention"});
  expect_error<UsageError>(of("encoder_norm", samples(), weights), {"'encoder_norm'", "LayerNorm", "one attention", "has 0"});
  expect_error<UsageError>(of("decoder0.cross_attention", {{"source", tokens(kSource, 3)}}, weights),
                           {"batch: the model asks for input", "known are source"});
  auto fewer = weights;
  fewer.erase("decoder0.cross_attention.q.weight");
  expect_error<UsageError>(of("decoder0.cross_attention", samples(), fewer), {"'decoder0.cross_attention.q.weight'"});
}

}  // namespace
}  // namespace sluice::training
