#include "models/transformer.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice::models
