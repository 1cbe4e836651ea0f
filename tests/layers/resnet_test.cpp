#include "models/resnet.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::models {
namespace {

using layers::Initializer;

constexpr std::array<int64_t, 4> kShort = {1, 1, 1, 1};

std::vector<Tensor> images(int64_t samples, int64_t size, std::vector<int32_t> labels) {
  const Tensor image = empty({samples, size, size, 3}, DType::f64);
  fill_normal(image, 0, 1, random_key(7, "image"));
  return {image, tensor_of({labels.begin(), labels.end()}, {samples}, DType::i32)};
}

TEST(ResNet, HasTheKnownNumbersOfParameters) {
  EXPECT_EQ(resnet({}).parameter_count(), 25'557'032);
  EXPECT_EQ(resnet({.blocks = {3, 4, 23, 3}}).parameter_count(), 44'549'160);
  EXPECT_EQ(resnet({.squeeze_excitation = true}).parameter_count(), 28'088'024);
}

TEST(ResNet, HasThreeNodesABlock) {
  std::string names;
  const auto graph = resnet({.blocks = {1, 2, 1, 1}, .image_size = 32});
  for (const auto& node : graph.nodes()) names += node.name + " ";
  EXPECT_EQ(names,
            "stem stage1_block0_reduce stage1_block0_spatial stage1_block0_expand stage2_block0_reduce stage2_block0_spatial "
            "stage2_block0_expand stage2_block1_reduce stage2_block1_spatial stage2_block1_expand stage3_block0_reduce "
            "stage3_block0_spatial stage3_block0_expand stage4_block0_reduce stage4_block0_spatial stage4_block0_expand head loss ");
}

/// The shapes of the values of the nodes whose names end so.
std::vector<Shape> shapes_of(const ResNetOptions& options, const std::string& end) {
  const auto graph = resnet(options);
  const auto parameters = sluice::testing::drawn_parameters(graph, 1);
  const auto values = sluice::testing::run_in_f64(graph, images(2, options.image_size, {0, 1}), {parameters.begin(), parameters.end()});
  std::vector<Shape> shapes;
  for (size_t i = 0; i < values.size(); ++i)
    if (graph.nodes()[i].name.ends_with(end)) shapes.push_back(values[i].shape());
  return shapes;
}

TEST(ResNet, HalvesTheImageFiveTimesFrom64PixelsAndThriceBelow) {
  const ResNetOptions large{.blocks = kShort, .filters = 4, .classes = 5, .image_size = 64};
  EXPECT_EQ(shapes_of(large, "_expand"), (std::vector<Shape>{{2, 16, 16, 16}, {2, 8, 8, 32}, {2, 4, 4, 64}, {2, 2, 2, 128}}));
  EXPECT_EQ(shapes_of(large, "_reduce")[1], (Shape{2, 16, 16, 8}));  // the stride lies in the 3x3
  EXPECT_EQ(shapes_of(large, "head"), (std::vector<Shape>{{2, 5}}));
  const ResNetOptions small{.blocks = kShort, .filters = 4, .classes = 5, .image_size = 33};
  EXPECT_EQ(shapes_of(small, "_expand"), (std::vector<Shape>{{2, 33, 33, 16}, {2, 17, 17, 32}, {2, 9, 9, 64}, {2, 5, 5, 128}}));
}

TEST(ResNet, StartsEachBlockAsItsInput) {
  const auto graph = resnet({});
  for (const auto& parameter : graph.parameters()) {
    if (!parameter.name.ends_with("gamma")) continue;
    const bool ends_a_block = parameter.name.ends_with("_expand.norm.gamma");
    EXPECT_EQ(parameter.spec.initializer.kind, ends_a_block ? Initializer::Kind::zeros : Initializer::Kind::ones) << parameter.name;
  }
}

TEST(ResNet, HasTheGradientsOfItsLoss) {
  const ResNetOptions options{.blocks = {1, 2, 1, 1}, .filters = 4, .classes = 3, .image_size = 9, .label_smoothing = 0.1};
  sluice::testing::expect_gradients_like_differences(resnet(options), images(4, 9, {0, 2, 1, 1}));
}

TEST(ResNet, HasTheGradientsOfItsLossWithSqueezeExcitation) {
  const ResNetOptions options{.blocks = kShort, .filters = 4, .classes = 3, .image_size = 8, .squeeze_excitation = true, .dropout = 0.3};
  sluice::testing::expect_gradients_like_differences(resnet(options), images(4, 8, {0, 2, 1, 1}));
}

TEST(ResNet, NamesTheKeyOfASizeThatIsOutOfRange) {
  expect_error<UsageError>([] { resnet({.image_size = 7}); }, {"model.image_size", "at least 8 pixels", "got 7"});
  expect_error<UsageError>([] { resnet({.filters = 0}); }, {"model.filters", "got 0"});
  expect_error<UsageError>([] { resnet({.classes = 0}); }, {"model.classes", "got 0"});
  expect_error<UsageError>([] { resnet({.dropout = 1}); }, {"Dropout", "[0, 1)"});
}

}  // namespace
}  // namespace sluice::models
