// Promises 1 to 3 of docs/design.md on a whole AmoebaNet: one answer for every pipeline, its running statistics and bytes included.
#include "models/amoebanet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 8, kSize = 16, kClasses = 4;

layers::Graph tiny_amoebanet(int64_t layers = 3) {
  models::AmoebaNetOptions options;
  options.layers = layers;
  options.filters = 16;
  options.classes = kClasses;
  options.image_size = kSize;
  options.drop_path_keep = 0.8;
  options.dropout = 0.5;
  options.label_smoothing = 0;
  return models::amoebanet(options);
}

Batch images(uint64_t seed) {
  const Tensor image = empty({kSamples, kSize, kSize, 3});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", sluice::testing::random_tokens({kSamples}, kClasses, seed)}});
}

TEST(AmoebaNet, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(tiny_amoebanet(), images); }

TEST(AmoebaNet, HasOneAnswerForEverySchedule) {  // three stages a device need twelve nodes for four devices
  sluice::testing::expect_one_answer_of_every_schedule(tiny_amoebanet(6), images);
}

TEST(AmoebaNet, GivesTheLogitsThatItsLossIsOf) {
  const auto outcome = sluice::testing::train(tiny_amoebanet(), images, {2, NamedSchedule::one_f_one_b});
  ASSERT_EQ(outcome.outputs.size(), static_cast<size_t>(kSamples * kClasses));
  const auto labels = images(sluice::testing::kEvaluationSeed).load("label", 0, kSamples).to_vector();
  double loss = 0;
  for (size_t sample = 0; sample < labels.size(); ++sample) {
    const double* row = outcome.outputs.data() + sample * kClasses;
    double sum = 0;
    for (int64_t i = 0; i < kClasses; ++i) sum += std::exp(row[i]);
    loss += std::log(sum) - row[static_cast<size_t>(labels[sample])];
  }
  EXPECT_NEAR(outcome.losses.back(), loss, 1e-4 * loss);
}

}  // namespace
}  // namespace sluice::parallel
