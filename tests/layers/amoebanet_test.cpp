#include "models/amoebanet.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace sluice::models {
namespace {

int64_t parameters_of(AmoebaNet genotype, int64_t layers, int64_t filters) {
  return amoebanet({.genotype = genotype, .layers = layers, .filters = filters, .classes = 1001}).parameter_count();
}

TEST(AmoebaNet, HasTheParametersOfThePublishedLayout) {
  EXPECT_EQ(parameters_of(AmoebaNet::d, 18, 208), 81'140'766);
  EXPECT_EQ(parameters_of(AmoebaNet::d, 18, 416), 317'548'353);
  EXPECT_EQ(parameters_of(AmoebaNet::d, 18, 544), 540'204'945);
  EXPECT_EQ(parameters_of(AmoebaNet::d, 36, 544), 1'053'302'481);
  EXPECT_EQ(parameters_of(AmoebaNet::d, 72, 512), 1'842'618'441);
  EXPECT_EQ(parameters_of(AmoebaNet::b, 18, 512), 557'286'057);
}

TEST(AmoebaNet, AddsTheAuxiliaryHeadOfThePublishedLayout) {
  const auto graph = amoebanet({.genotype = AmoebaNet::d, .layers = 18, .filters = 208, .classes = 1001, .aux_head = true});
  EXPECT_EQ(graph.parameter_count(), 81'785'166);
}

TEST(AmoebaNet, PutsReductionsBeforeAThirdAndTwoThirdsOfItsCells) {
  const auto graph = amoebanet({.genotype = AmoebaNet::d, .layers = 6, .filters = 16, .classes = 10, .image_size = 32});
  std::string names;
  for (const auto& node : graph.nodes()) names += node.name + " ";
  EXPECT_EQ(names, "stem stem_cell0 stem_cell1 cell0 cell1 reduction0 cell2 cell3 reduction1 cell4 cell5 head loss ");
}

TEST(AmoebaNet, DecaysWeightsOfConvolutionsAndClassifiersAndNothingElse) {
  const auto graph = amoebanet({.layers = 3, .filters = 16, .classes = 10, .image_size = 67, .aux_head = true});
  int weights = 0;
  for (const auto& parameter : graph.parameters()) {
    const bool is_weight = parameter.name.ends_with(".weight");
    EXPECT_EQ(parameter.spec.decay, is_weight) << parameter.name;
    EXPECT_EQ(parameter.spec.shape.rank() > 1, is_weight) << parameter.name << " " << parameter.spec.shape.text();
    weights += is_weight;
  }
  EXPECT_GT(weights, 20);
}

TEST(AmoebaNet, NamesTheKeyOfASizeThatIsOutOfRange) {
  expect_error<UsageError>([] { amoebanet({.layers = 2}); }, {"model.layers", "at least 3", "got 2"});
  expect_error<UsageError>([] { amoebanet({.filters = 30}); }, {"model.filters", "multiple of 4", "got 30"});
  expect_error<UsageError>([] { amoebanet({.image_size = 64, .aux_head = true}); }, {"model.aux_head", "67 pixels", "64"});
  expect_error<UsageError>([] { amoebanet({.drop_path_keep = 0}); }, {"model.drop_path_keep", "(0, 1]"});
}

}  // namespace
}  // namespace sluice::models
