#include "models/transformer.h"

#include <gtest/gtest.h>

#include "layers/tables.h"
#include "models/generator.h"
#include "tests/expect_error.h"

namespace sluice::models {
namespace {

TransformerOptions paper_options(int64_t layers) {
  TransformerOptions options;
  options.layers = layers;
  options.dim = 2048;
  options.ffn = 8192;
  options.heads = 32;
  options.vocab = 32000;
  options.context = 1024;
  options.tied_embeddings = false;
  options.positions = PositionEncoding::sinusoidal;
  options.activation = layers::Activation::Kind::relu;
  return options;
}

TEST(Transformer, HasThePapersParameters) {
  for (int64_t layers : {1, 3, 13, 103})
    EXPECT_EQ(transformer_lm(paper_options(layers)).parameter_count(), layers * 50'358'272 + 131'108'096) << layers << " layers";
}

TEST(Transformer, HasTheParametersOfGpt2) {
  TransformerOptions options;
  options.layers = 12;
  options.dim = 768;
  options.heads = 12;
  options.vocab = 50257;
  options.context = 1024;
  EXPECT_EQ(transformer_lm(options).parameter_count(), 124'439'808);
  options.layers = 24;
  options.dim = 1024;
  options.heads = 16;
  EXPECT_EQ(transformer_lm(options).parameter_count(), 354'823'168);
}

TEST(Transformer, CountsATiedParameterOnce) {
  TransformerOptions options;
  options.layers = 1;
  const layers::Graph graph = transformer_lm(options);
  int64_t by_node = 0;
  for (int node = 0; node < static_cast<int>(graph.nodes().size()); ++node) by_node += graph.parameter_count(node);
  EXPECT_EQ(by_node, graph.parameter_count());
}

TEST(Transformer, RefusesHeadsThatDoNotDivideItsWidth) {
  TransformerOptions options;
  options.heads = 5;
  expect_error<UsageError>([&] { transformer_lm(options); }, {"5 heads for width 384"});
  options = {};
  options.layers = 0;
  expect_error<UsageError>([&] { transformer_lm(options); }, {"model.layers"});
}

std::map<std::string, Tensor> started_parameters(const layers::Graph& graph) {
  std::map<std::string, Tensor> parameters;
  for (const auto& description : graph.parameters()) {
    Tensor value = empty(description.spec.shape);
    fill_normal(value, description.spec.shape.rank() == 1 ? 1 : 0, 0.3, random_key(1, description.name));
    parameters[description.name] = value;
  }
  return parameters;
}

/// Logits of the last token without a cache: the graph run over the whole sequence.
std::vector<double> whole_sequence_logits(const layers::Graph& graph, const std::map<std::string, Tensor>& parameters,
                                          const std::vector<int32_t>& tokens) {
  std::vector<Tensor> values(graph.inputs().size() + graph.nodes().size());
  const int64_t count = static_cast<int64_t>(tokens.size());
  values[0] = tensor_of({tokens.begin(), tokens.end()}, {1, count}, DType::i32);
  layers::Tables tables(default_device(), DType::f32);
  for (int node = 0; node <= graph.output_node(); ++node) {
    layers::Call call;
    call.tables = tables.of(*graph.nodes()[node].module);
    call.training = false;
    for (int value : graph.nodes()[node].inputs) call.inputs.emplace_back(values[value]);
    for (int parameter : graph.nodes()[node].parameters) call.parameters.emplace_back(parameters.at(graph.parameters()[parameter].name));
    values[graph.value_of(node)] = graph.nodes()[node].module->forward(call).value();
  }
  return values[graph.value_of(graph.output_node())].slice(1, count - 1, count).to_vector();
}

TEST(Generator, WithItsCacheContinuesAsTheWholeSequenceDoes) {
  for (const auto positions : {PositionEncoding::learned, PositionEncoding::sinusoidal, PositionEncoding::rotary}) {
    TransformerOptions options;
    options.layers = 2;
    options.dim = 16;
    options.heads = 2;
    options.vocab = 23;
    options.context = 20;
    options.positions = positions;
    const layers::Graph graph = transformer_lm(options);
    const auto parameters = started_parameters(graph);
    std::vector<int32_t> tokens{3, 1, 4, 1, 5}, expected = tokens;
    Generator generator(graph, parameters, options.context);
    generator.generate(tokens, 10, {.temperature = 0}, [&](int32_t token) {
      tokens.push_back(token);
      return true;
    });
    for (int i = 0; i < 10; ++i)
      expected.push_back(sample_token(whole_sequence_logits(graph, parameters, expected), {.temperature = 0}, 0));
    EXPECT_EQ(tokens, expected) << static_cast<int>(positions);
  }
}

TEST(Generator, RefusesWhatDoesNotFitTheContext) {
  TransformerOptions options;
  options.layers = 1;
  options.dim = 8;
  options.heads = 1;
  options.vocab = 5;
  options.context = 6;
  const layers::Graph graph = transformer_lm(options);
  Generator generator(graph, started_parameters(graph), options.context);
  const auto emit = [](int32_t) { return true; };
  expect_error<UsageError>([&] { generator.generate({1, 2, 3}, 4, {}, emit); }, {"the context of 6, got 3 + 4"});
  expect_error<UsageError>([&] { generator.generate({}, 4, {}, emit); }, {"at least one token"});
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

}  // namespace
}  // namespace sluice::models
