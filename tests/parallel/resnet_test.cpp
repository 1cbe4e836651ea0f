// Promises 1 to 3 of docs/design.md on a whole ResNet: one answer for every pipeline, its running statistics and bytes included.
#include "models/resnet.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 8, kSize = 16, kClasses = 4;

layers::Graph tiny_resnet(bool squeeze_excitation) {
  return models::resnet({.blocks = {1, 2, 1, 1},
                         .filters = 4,
                         .classes = kClasses,
                         .image_size = kSize,
                         .squeeze_excitation = squeeze_excitation,
                         .dropout = 0.3});
}

Batch images(uint64_t seed) {
  const Tensor image = empty({kSamples, kSize, kSize, 3});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", sluice::testing::random_tokens({kSamples}, kClasses, seed)}});
}

TEST(ResNet, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(tiny_resnet(false), images); }

TEST(ResNet, HasOneAnswerForEveryPipelineWithSqueezeExcitation) { sluice::testing::expect_one_answer(tiny_resnet(true), images); }

}  // namespace
}  // namespace sluice::parallel
