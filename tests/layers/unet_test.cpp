#include "models/unet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::models {
namespace {

struct Parameters {
  int64_t of_weights = 0, of_norms = 0;
};

Parameters parameters_of(int64_t depth, int64_t convolutions, int64_t filters) {
  Parameters result;
  const auto graph = unet({.depth = depth, .convolutions = convolutions, .filters = filters, .classes = 1});
  for (const auto& parameter : graph.parameters())
    (parameter.name.ends_with("weight") ? result.of_weights : result.of_norms) += parameter.spec.shape.elements();
  return result;
}

std::vector<Tensor> images(int64_t samples, int64_t size, int64_t classes) {
  const Tensor image = empty({samples, size, size, 3}, DType::f64);
  fill_normal(image, 0, 1, random_key(7, "image"));
  std::vector<double> mask;
  for (int64_t i = 0; i < samples * size * size; ++i) mask.push_back(static_cast<double>(i * 7 % classes));
  mask[3] = -100;
  return {image, tensor_of(mask, {samples, size, size}, DType::i32)};
}

/// torchgpipe publishes 362.2M, 2.21B, 4.99B, 7.80B and 15.82B for these; its norms have no parameters.
TEST(UNet, HasTheWeightsOfThePublishedLayout) {
  EXPECT_EQ(parameters_of(5, 5, 64).of_weights, 232'687'328);
  EXPECT_EQ(parameters_of(5, 6, 72).of_weights, 362'157'516);
  EXPECT_EQ(parameters_of(5, 11, 128).of_weights, 2'213'834'176);
  EXPECT_EQ(parameters_of(5, 24, 128).of_weights, 4'993'859'008);
  EXPECT_EQ(parameters_of(5, 24, 160).of_weights, 7'802'903'600);
  EXPECT_EQ(parameters_of(5, 48, 160).of_weights, 15'822'206'000);
  EXPECT_EQ(parameters_of(5, 6, 72).of_norms, 65'520);
}

TEST(UNet, JoinsEachLevelOfTheEncoderToThatOfTheDecoder) {
  const auto graph = unet({.depth = 2, .convolutions = 2, .filters = 4, .image_size = 16});
  std::string names;
  for (const auto& node : graph.nodes()) names += node.name + " ";
  EXPECT_EQ(names,
            "encoder0_conv0 encoder0_conv1 encoder0_pool encoder1_conv0 encoder1_conv1 encoder1_pool bottom_conv0 bottom_conv1 "
            "decoder1_up decoder1_conv0 decoder1_conv1 decoder0_up decoder0_conv0 decoder0_conv1 segment loss ");
  const auto& up = graph.nodes()[11];
  ASSERT_EQ(up.name, "decoder0_up");
  EXPECT_EQ(up.inputs, (std::vector<int>{graph.value_of(10), graph.value_of(1)}));
}

TEST(UNet, GivesLogitsForEachPixelAlsoOfOddImages) {
  const UNetOptions options{.depth = 3, .convolutions = 1, .filters = 4, .classes = 5, .image_size = 13};
  const auto graph = unet(options);
  const auto parameters = sluice::testing::drawn_parameters(graph, 1);
  const auto values = sluice::testing::run_in_f64(graph, images(2, 13, 5), {parameters.begin(), parameters.end()});
  EXPECT_EQ(values[static_cast<size_t>(graph.output_node())].shape(), (Shape{2, 13, 13, 5}));
}

TEST(UNet, HasTheGradientsOfItsLoss) {
  const UNetOptions options{.depth = 2, .convolutions = 2, .filters = 4, .classes = 3, .image_size = 10, .dropout = 0.3};
  sluice::testing::expect_gradients_like_differences(unet(options), images(3, 10, 3));
}

TEST(UNet, CountsThePixelsThatHaveAClass) {
  const auto graph = unet({.depth = 1, .convolutions = 1, .filters = 2, .image_size = 4});
  const auto& loss = graph.nodes()[static_cast<size_t>(graph.loss_node())];
  EXPECT_EQ(loss.module->loss_weight({Tensor(), images(2, 4, 2)[1]}, 2), 2 * 4 * 4 - 1);
}

TEST(UNet, NamesTheKeyOfASizeThatIsOutOfRange) {
  expect_error<UsageError>([] { unet({.depth = 5, .image_size = 31}); },
                           {"model.image_size", "at least 32 pixels", "got 31", "model.depth"});
  expect_error<UsageError>([] { unet({.depth = 0}); }, {"model.depth", "1 to 16", "got 0"});
  expect_error<UsageError>([] { unet({.convolutions = 0}); }, {"model.convolutions", "got 0"});
  expect_error<UsageError>([] { unet({.filters = 5}); }, {"model.filters", "even", "got 5"});
  expect_error<UsageError>([] { unet({.depth = 16, .filters = 64, .image_size = 65536}); }, {"model.filters", "model.depth", "1048576"});
  expect_error<UsageError>([] { unet({.classes = 0}); }, {"model.classes", "got 0"});
  for (const double dropout : {-0.1, std::nan(""), 1.0})
    expect_error<UsageError>([=] { unet({.dropout = dropout}); }, {"Dropout", "[0, 1)"});
}

}  // namespace
}  // namespace sluice::models
