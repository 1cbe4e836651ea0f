// A Decoder gave garbage without a word for models that mix tokens by anything but causal attention, and let one new token read what an input
// beside the tokens has for all of them.
#include <gtest/gtest.h>

#include "autograd/ops/cumsum.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/flip.h"
#include "autograd/ops/views.h"
#include "layers/attention.h"
#include "layers/combine.h"
#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/group_norm.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/mixture_of_experts.h"
#include "layers/normalization.h"
#include "layers/recurrent.h"
#include "models/translation.h"
#include "tests/expect_error.h"
#include "tests/training/language_models.h"
#include "training/decoding/decoder.h"

namespace sluice::training {
namespace {

using namespace layers;

constexpr int64_t kTokens = 16, kWidth = 4, kVocabulary = 9;

/// Embedding, what `middle` adds, and logits. Of `segments` there is one for each token.
template <class F>
Graph model(const F& middle, int64_t context = kTokens) {
  Graph graph;
  const Value tokens = graph.input("tokens", {context}, DType::i32), segments = graph.input("segments", {context}, DType::i32);
  const Value topic = graph.input("topic", {}, DType::i32);
  const Value x = graph.add("embedding", Embedding(kVocabulary, kWidth, 1.0), tokens);
  graph.output(graph.add("logits", Linear(kWidth, kVocabulary), middle(graph, x, segments, topic)));
  return graph;
}

template <class M>
Graph model_with(M module) {
  return model([&](Graph& graph, Value x, Value, Value) { return graph.add("middle", std::move(module), x); });
}

void decode(const Graph& graph, Precision precision = Precision::f32) {
  Decoder(graph, sluice::testing::drawn_weights(graph), devices("cpu:0"), {.pipeline = {.precision = precision}});
}

void expect_refused(const Graph& graph, const char* type) {
  for (const auto precision : {Precision::f32, Precision::bf16})
    expect_error<UsageError>([&] { decode(graph, precision); }, {"decoder", "'middle'", type, "causal attention", "Predictor"});
}

Lambda function(std::string name, std::function<Var(const Var&)> f) { return {std::move(name), std::move(f)}; }

TEST(DecodersOfMixedTokens, AreRefusedNamingTheNode) {
  expect_refused(model_with(LSTM(kWidth, kWidth)), "LSTM");
  expect_refused(model_with(GRU(kWidth, kWidth)), "GRU");
  expect_refused(model_with(Conv1d({.in = kWidth, .out = kWidth, .size = 3, .padding = Padding::given, .pad = 1})), "Conv1d");
  expect_refused(model_with(GroupNorm(2, kWidth)), "GroupNorm");
  expect_refused(model_with(function("sums", [](const Var& x) { return cumsum(x, 1); })), "'sums'");
  expect_refused(model_with(function("back", [](const Var& x) { return flip(x, {1}); })), "'back'");
}

TEST(DecodersOfMixedTokens, AreRefusedWhereTheOutputMixesThemOrIsOfOneToken) {
  const auto graph = [](auto last) {
    Graph made;
    const Value x = made.add("embedding", Embedding(kVocabulary, kVocabulary, 1.0), made.input("tokens", {kTokens}, DType::i32));
    made.output(made.add("last", std::move(last), x));
    return made;
  };
  expect_error<UsageError>([&] { decode(graph(LSTM(kVocabulary, kVocabulary))); }, {"'last'", "LSTM"});
  expect_error<UsageError>([&] { decode(graph(function("select", [](const Var& x) { return select(x, 1, -1); }))); }, {"'last'", "select"});
}

TEST(DecodersOfMixedTokens, AreRefusedWhereExpertsDropTokens) {
  const auto graph = [](double factor) {
    return model([&](Graph& made, Value x, Value, Value) {
      return add_mixture_of_experts(made, "mixture", {.width = kWidth, .inner = 8, .experts = 4, .capacity_factor = factor}, x).output;
    });
  };
  expect_error<UsageError>([&] { decode(graph(1.25)); }, {"Experts", "capacity_factor of 1.25", "chosen = 2"});
  decode(graph(2));
}

TEST(DecodersOfMixedTokens, AreMadeWhereOnlyCausalAttentionMixesThem) {
  const MultiHeadAttention attention({.width = kWidth, .heads = 2, .rotary = true, .context = kTokens, .key_heads = 1});
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    decode(model_with(attention), precision);
    decode(model_with(Residual(Sequence(LayerNorm(kWidth), attention, Linear(kWidth, kWidth)), 0.1)), precision);
    decode(model_with(Sequence(Positions(Positions::Kind::learned, kTokens, kWidth), attention)), precision);
    decode(model_with(function("twice", [](const Var& x) { return scale(x, 2); })), precision);
  }
  decode(model([](Graph& graph, Value x, Value, Value lengths) {
    return graph.add("middle", MultiHeadAttention({.width = kWidth, .heads = 2}), {x, lengths});
  }));
}

TEST(DecodersOfMixedTokens, RefuseAnInputThatHasSomethingForEachToken) {
  const auto with_segments = [](Graph& graph, Value x, Value segments, Value) {
    return graph.add("middle", Add(), {x, graph.add("kinds", Embedding(2, kWidth, 1.0), segments)});
  };
  const auto with_attention = [&](Graph& graph, Value x, Value segments, Value topic) {
    return graph.add("attention", MultiHeadAttention({.width = kWidth, .heads = 2}), with_segments(graph, x, segments, topic));
  };
  expect_error<UsageError>([&] { decode(model(with_attention)); }, {"decoder", "'middle'", "'segments'", "16 tokens"});
  for (const int64_t context : {2, 16, 100})
    expect_error<UsageError>([&] { decode(model(with_segments, context)); }, {"decoder", "'middle'", "'segments'", "Predictor"});
  decode(model([](Graph& graph, Value x, Value, Value topic) {
    const Value kind = graph.add("kind", Embedding(3, kWidth, 1.0), topic);
    return graph.add("middle", Lambda("topic", [](const Var& a, const Var& b) { return add(a, unsqueeze(b, 1)); }), {x, kind});
  }));
}

TEST(DecodersOfMixedTokens, AreMadeOfTranslationsWithSourcesAsLongAsTargets) {
  for (const int64_t source : {8, 16, 200}) {
    const auto graph = models::translation_model({.encoder_layers = 1,
                                                  .decoder_layers = 1,
                                                  .dim = 8,
                                                  .heads = 2,
                                                  .head_width = 4,
                                                  .vocab = 23,
                                                  .source_context = source,
                                                  .target_context = 16});
    Decoder(graph, sluice::testing::drawn_weights(graph), devices("cpu:0"), {.tokens = "target"});
  }
}

}  // namespace
}  // namespace sluice::training
