// Promises 1 to 3 of docs/design.md on a whole AmoebaNet: one answer for every pipeline, its running statistics and bytes included.
#include "models/amoebanet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 8, kSize = 16, kClasses = 4;

layers::Graph tiny_amoebanet() {
  models::AmoebaNetOptions options;
  options.layers = 3;
  options.filters = 16;
  options.classes = kClasses;
  options.image_size = kSize;
  options.drop_path_keep = 0.8;
  options.dropout = 0.5;
  options.label_smoothing = 0;
  return models::amoebanet(options);
}

Batch pictures(uint64_t seed) {
  const Tensor image = empty({kSamples, kSize, kSize, 3});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", sluice::testing::random_tokens({kSamples}, kClasses, seed)}});
}

struct Outcome {
  std::string hash;
  std::vector<double> losses, logits;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const layers::Graph& graph, int device_count, const std::string& schedule, const std::string& remat) {
  SCOPED_TRACE(std::to_string(device_count) + " devices, " + schedule + ", remat " + remat);
  std::string names = "cpu:0";
  for (int i = 1; i < device_count; ++i) names += ",cpu:" + std::to_string(i);
  const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = 4, .schedule = schedule, .remat = remat});
  const AdamW optimizer({.lr = 1e-2});
  Trainer trainer(graph, chosen, optimizer, {.seed = 3, .clip = 1});
  const Prediction prediction = predict(graph, chosen, optimizer, kSamples, {});
  Outcome outcome;
  for (uint64_t step = 0; step < 3; ++step) outcome.losses.push_back(trainer.step(pictures(step)).loss);
  for (size_t i = 0; i < chosen.devices.size(); ++i) EXPECT_EQ(chosen.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes);
  const auto evaluation = trainer.evaluate(pictures(77), true);
  outcome.losses.push_back(evaluation.loss_sum);
  outcome.logits = evaluation.output.to_vector();
  outcome.hash = trainer.weights_hash();
  return outcome;
}

TEST(AmoebaNet, HasOneAnswerForEveryPipeline) {
  const layers::Graph graph = tiny_amoebanet();
  const Outcome first = train(graph, 1, "gpipe", "none");
  for (int device_count : {1, 2, 3, 4})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const char* remat : {"none", "full"}) EXPECT_EQ(train(graph, device_count, schedule, remat), first);
}

TEST(AmoebaNet, GivesTheLogitsThatItsLossIsOf) {
  const Outcome outcome = train(tiny_amoebanet(), 2, "1f1b", "none");
  ASSERT_EQ(outcome.logits.size(), static_cast<size_t>(kSamples * kClasses));
  const auto labels = pictures(77).load("label", 0, kSamples).to_vector();
  double loss = 0;
  for (size_t sample = 0; sample < labels.size(); ++sample) {
    const double* row = outcome.logits.data() + sample * kClasses;
    double sum = 0;
    for (int64_t i = 0; i < kClasses; ++i) sum += std::exp(row[i]);
    loss += std::log(sum) - row[static_cast<size_t>(labels[sample])];
  }
  EXPECT_NEAR(outcome.losses.back(), loss, 1e-4 * loss);
}

}  // namespace
}  // namespace sluice::parallel
