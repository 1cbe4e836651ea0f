#include "models/amoebanet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "autograd/ops/elementwise.h"
#include "core/random.h"
#include "models/amoebanet_cell.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

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

Tensor normal(const Shape& shape, const std::string& name, double mean = 0) {
  const Tensor x = empty(shape, DType::f64);
  fill_normal(x, mean, 1, random_key(1, name));
  return x;
}

/// The cell's inputs and parameters, all of which want gradients.
layers::Call call_of(const Cell& cell, const Shape& last, const Shape& before) {
  layers::Call call;
  call.training = true;
  call.inputs = {Var::input(normal(last, "last")), Var::input(normal(before, "before"))};
  for (const auto& spec : cell.parameters()) call.parameters.push_back(Var::input(normal(spec.shape, spec.name, 0.5)));
  return call;
}

/// The output of a cell of 8 filters through ReLU, and its gradients with respect to the two images and all parameters, in training. ReLU of
/// the images is taken by the cell, or before it where the options say so; that of the output by the cell or after it.
std::vector<std::vector<double>> rectified_cell(const Cell::Options& options, const Shape& last, const Shape& before) {
  const Cell cell(options);
  layers::Call call = call_of(cell, last, before);
  const std::vector<Var> images{call.inputs[0], call.inputs[1]};
  std::vector<Var> leaves = images;
  leaves.insert(leaves.end(), call.parameters.begin(), call.parameters.end());
  call.inputs = {options.last_is_rectified ? relu(images[0]) : images[0], options.before_is_rectified ? relu(images[1]) : images[1]};
  Var y = cell.forward(call);
  if (!options.rectifies) y = relu(y);
  std::vector<std::vector<double>> found{y.value().to_vector()};
  for (const Tensor& gradient : gradients(y, normal(y.shape(), "dy"), leaves)) found.push_back(gradient.to_vector());
  return found;
}

/// The output to the bit, and gradients but for the order of their sums.
void expect_the_same(const std::vector<std::vector<double>>& found, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(found[0], expected[0]);
  for (size_t i = 1; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size()) << i;
    for (size_t j = 0; j < found[i].size(); ++j)
      EXPECT_NEAR(found[i][j], expected[i][j], 1e-11 * (1 + std::abs(expected[i][j]))) << i << " " << j;
  }
}

TEST(AmoebaNetCell, ComputesTheSameWhereverReLUIsTaken) {
  for (const AmoebaNet network : {AmoebaNet::b, AmoebaNet::d})
    for (const bool is_reduction : {false, true})
      for (const bool is_larger : {false, true}) {
        Cell::Options options{.genotype = &(is_reduction ? reduction_genotype : normal_genotype)(network),
                              .last = 6,
                              .before = 12,
                              .filters = 8,
                              .is_reduction = is_reduction,
                              .before_is_larger = is_larger};
        const Shape last{2, 6, 6, 6}, before = is_larger ? Shape{2, 12, 12, 12} : Shape{2, 6, 6, 12};
        SCOPED_TRACE(::testing::Message() << is_reduction << is_larger);
        const auto expected = rectified_cell(options, last, before);
        options.last_is_rectified = options.before_is_rectified = options.rectifies = true;
        expect_the_same(rectified_cell(options, last, before), expected);
      }
}

/// Also of a state that all edges read through ReLU.
TEST(AmoebaNetCell, HandsOnWhatIsNegativeInEveryStateUnlessItRectifies) {
  for (const AmoebaNet network : {AmoebaNet::b, AmoebaNet::d})
    for (const Genotype& genotype : {normal_genotype(network), reduction_genotype(network)}) {
      const Cell cell({.genotype = &genotype, .last = 6, .before = 12, .filters = 8});
      const Tensor y = cell.forward(call_of(cell, {2, 6, 6, 6}, {2, 6, 6, 12})).value();
      for (size_t i = 0; i < genotype.outputs.size(); ++i)
        EXPECT_LT(std::ranges::min(y.slice(3, 8 * i, 8 * (i + 1)).to_vector()), 0) << genotype.outputs[i];
    }
}

/// The second normal cell of AmoebaNet-B keeps what the stem's last cell gave. The last two cells have one reader each.
TEST(AmoebaNetCell, TakesReLUOfItsOutputUnlessAReaderKeepsIt) {
  for (const AmoebaNet network : {AmoebaNet::b, AmoebaNet::d}) {
    const auto graph = amoebanet({.genotype = network, .layers = 6, .filters = 16, .classes = 3, .image_size = 32});
    const auto parameters = sluice::testing::drawn_parameters(graph, 1);
    const auto values = sluice::testing::run_in_f64(graph, {normal({2, 32, 32, 3}, "image"), tensor_of({0, 2}, {2}, DType::i32)},
                                                    {parameters.begin(), parameters.end()});
    std::string with_negatives;
    for (size_t node = 0; node < values.size(); ++node)
      if (std::ranges::min(values[node].value().to_vector()) < 0) with_negatives += graph.nodes()[node].name + " ";
    EXPECT_EQ(with_negatives, network == AmoebaNet::b ? "stem stem_cell1 cell4 cell5 head " : "stem cell4 cell5 head ");
  }
}

}  // namespace
}  // namespace sluice::models
