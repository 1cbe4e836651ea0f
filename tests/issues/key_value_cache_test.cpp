// All attentions of one node shared one key/value cache, so that generation mixed their keys.
#include <gtest/gtest.h>

#include "layers/attention.h"
#include "layers/cross_entropy.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "training/decoding/sampling.h"

namespace sluice::training {
namespace {

constexpr int64_t kWidth = 8, kVocabulary = 23, kContext = 20;

layers::MultiHeadAttention attention() { return layers::MultiHeadAttention({.width = kWidth, .heads = 2}); }

/// One attention, applied twice.
class Twice : public layers::Composite {
 public:
  Twice() : attention_(add("attention", attention())) {}
  Var forward(const layers::Call& call) const override { return run(call, attention_, {run(call, attention_, call.inputs)}); }

 private:
  int attention_;
};

template <class M>
layers::Graph language_model(M middle) {
  using namespace layers;
  Graph graph;
  const Value tokens = graph.input("tokens", {kContext}, DType::i32), targets = graph.input("targets", {kContext}, DType::i32);
  Value x = graph.add("embedding", TokenEmbedding({.vocabulary = kVocabulary, .width = kWidth, .context = kContext}), tokens);
  x = graph.add("middle", std::move(middle), x);
  const Value logits = graph.add("logits", Linear(kWidth, kVocabulary), x);
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, targets}));
  return graph;
}

std::map<std::string, Tensor> drawn_parameters(const layers::Graph& graph) {
  std::map<std::string, Tensor> parameters;
  for (const auto& description : graph.parameters()) {
    const Tensor value = empty(description.spec.shape);
    fill_normal(value, 0, 0.7, random_key(1, description.name));
    parameters[description.name] = value;
  }
  return parameters;
}

/// The most likely next token, of the graph run over the whole sequence without a cache.
int32_t next_token(const layers::Graph& graph, const std::map<std::string, Tensor>& parameters, const std::vector<int32_t>& tokens) {
  std::vector<Tensor> values(graph.inputs().size());
  const int64_t count = static_cast<int64_t>(tokens.size());
  values[0] = tensor_of({tokens.begin(), tokens.end()}, {1, count}, DType::i32);
  for (int node = 0; node <= graph.output_node(); ++node) {
    layers::Call call;
    call.training = false;
    for (int value : graph.nodes()[node].inputs) call.inputs.emplace_back(values[value]);
    for (int parameter : graph.nodes()[node].parameters) call.parameters.emplace_back(parameters.at(graph.parameters()[parameter].name));
    values.push_back(graph.nodes()[node].module->forward(call).value());
  }
  return sample_token(values.back().slice(1, count - 1, count).to_vector(), {.temperature = 0}, 0);
}

void expect_to_continue_as_without_a_cache(const layers::Graph& graph) {
  const auto parameters = drawn_parameters(graph);
  std::vector<int32_t> tokens{3, 1, 4, 1, 5}, expected = tokens;
  Decoder decoder(graph, parameters, devices("cpu:0"), {});
  for (int times = 0; times < 2; ++times) {  // the second begins with empty caches again
    tokens.resize(5);
    sample(decoder, std::vector<int32_t>(tokens), 10, {.temperature = 0}, [&](int32_t token) {
      tokens.push_back(token);
      return true;
    });
    expected.resize(5);
    for (int i = 0; i < 10; ++i) expected.push_back(next_token(graph, parameters, expected));
    EXPECT_EQ(tokens, expected);
  }
}

TEST(KeyValueCache, IsOneOfEachAttentionOfANode) {
  expect_to_continue_as_without_a_cache(language_model(layers::Sequence().then("first", attention()).then("second", attention())));
  expect_to_continue_as_without_a_cache(language_model(layers::Sequence()
                                                           .then("first", layers::Sequence().then("inner", attention()))
                                                           .then("second", layers::Sequence().then("inner", attention()))));
}

TEST(KeyValueCache, IsOneOfEachUseOfAnAttention) { expect_to_continue_as_without_a_cache(language_model(Twice())); }

}  // namespace
}  // namespace sluice::training
