// A new training from a trained model: what fits is taken, the rest is left, and both are said.
#include "parallel/checkpoint/initialize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/amoebanet.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 4, kSize = 16;

layers::Graph amoebanet_of(int64_t classes) {
  models::AmoebaNetOptions options;
  options.layers = 3;
  options.filters = 16;
  options.classes = classes;
  options.image_size = kSize;
  return models::amoebanet(options);
}

Batch images(int64_t classes, uint64_t seed) {
  const Tensor image = empty({kSamples, kSize, kSize, 3});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", sluice::testing::random_tokens({kSamples}, classes, seed)}});
}

std::unique_ptr<Trainer> trainer_of(const layers::Graph& graph, const std::string& device_names, double ema, uint64_t seed) {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = ema;
  return std::make_unique<Trainer>(graph, plan(graph, devices(device_names), {.batch = kSamples, .micro_batches = 2}), optimizer,
                                   TrainerOptions{.seed = seed});
}

class FineTuning : public ::testing::Test {
 protected:
  /// Of ten classes, trained for two steps.
  Checkpoint trained(double ema) {
    pretrained_ = trainer_of(amoebanet_of(10), "cpu:0", ema, 3);
    for (uint64_t step : {1, 2}) pretrained_->step(images(10, step));
    return open_checkpoint(output_.save(*pretrained_, "", {}, 1));
  }

  TemporaryFolder folder_;
  OutputFolder output_{folder_.path() / "run"};
  std::unique_ptr<Trainer> pretrained_;
};

TEST_F(FineTuning, TakesAllOfAnAmoebaNetButTheClassifierOfAnotherNumberOfClasses) {
  const Checkpoint checkpoint = trained(0);
  const auto fresh = trainer_of(amoebanet_of(5), "cpu:0,cpu:1", 0, 8), tuned = trainer_of(amoebanet_of(5), "cpu:0,cpu:1", 0, 8);
  const Initialization done = initialize(checkpoint, *tuned);
  const auto source = pretrained_->model(), start = fresh->model(), model = tuned->model();
  EXPECT_EQ(done.loaded.size() + 2, model.size());
  EXPECT_EQ(done.other_shapes.size(), 2u);
  EXPECT_TRUE(done.not_there.empty());
  EXPECT_TRUE(done.without_place.empty());
  for (const auto& [name, tensor] : model) {
    const bool fits = source.at(name).shape() == tensor.shape();
    EXPECT_EQ(fits, !name.starts_with("head.classifier.")) << name;
    EXPECT_EQ(tensor.to_vector(), (fits ? source : start).at(name).to_vector()) << name;
  }
  const std::string text = describe(done);
  EXPECT_NE(text.find(join(model.size() - 2, " of ", model.size(), " tensors loaded\n")), std::string::npos) << text;
  EXPECT_NE(text.find("head.classifier.bias, the model needs [5], the checkpoint has [10]"), std::string::npos) << text;
  EXPECT_EQ(tuned->steps_done(), 0);
  EXPECT_TRUE(std::isfinite(tuned->step(images(5, 3)).loss));
}

TEST_F(FineTuning, BeginsWithTheMovingAveragesThatEvaluationShowed) {
  const Checkpoint checkpoint = trained(0.9);
  const auto same = trainer_of(amoebanet_of(10), "cpu:0,cpu:1", 0.5, 8), without = trainer_of(amoebanet_of(10), "cpu:0", 0, 8);
  for (Trainer* trainer : {same.get(), without.get()}) {
    EXPECT_TRUE(initialize(checkpoint, *trainer).averages);
    EXPECT_EQ(trainer->evaluate(images(10, 9)).loss_sum, pretrained_->evaluate(images(10, 9)).loss_sum);
  }
  const auto averages = pretrained_->averages(), model = same->model(), own = same->averages();
  for (const auto& [name, average] : averages) {
    EXPECT_EQ(model.at(name).to_vector(), average.to_vector()) << name;
    EXPECT_EQ(own.at(name).to_vector(), average.to_vector()) << name << ": its own averages start at its weights";
  }
}

TEST_F(FineTuning, NamesWhatIsNotThereAndWhatHasNoPlace) {
  const auto pretrained = trainer_of(sluice::testing::skip_graph(), "cpu:0", 0, 3);
  const Checkpoint checkpoint = open_checkpoint(output_.save(*pretrained, "", {}, 1));
  layers::Graph graph;
  const auto image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const auto stem = graph.add("stem", layers::Linear(6, 8), image), a = graph.add("a", layers::Linear(8, 9), stem);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("new", layers::Linear(9, 5), a), label}));
  const auto trainer = trainer_of(graph, "cpu:0", 0, 1);
  const Initialization done = initialize(checkpoint, *trainer);
  EXPECT_EQ(done.loaded, (std::vector<std::string>{"stem.bias", "stem.weight"}));
  EXPECT_EQ(done.not_there, (std::vector<std::string>{"new.bias", "new.weight"}));
  EXPECT_EQ(done.other_shapes.size(), 2u);
  EXPECT_EQ(done.without_place.size(), pretrained->model().size() - 4);
  for (const char* words : {"2 of 6 tensors loaded\n", "a.bias, the model needs [9], the checkpoint has [8]",
                            "new.bias, the checkpoint has none", "without a place in the model: e.bias"})
    EXPECT_NE(describe(done).find(words), std::string::npos) << words;
}

TEST_F(FineTuning, IsRefusedWhenNothingFits) {
  const Checkpoint checkpoint = trained(0);
  const auto trainer = trainer_of(models::transformer_lm(sluice::testing::tiny_transformer_options()), "cpu:0", 0, 1);
  expect_error<DataError>([&] { initialize(checkpoint, *trainer); }, {"needs at least one of the model's", "has none", "[model]"});
}

}  // namespace
}  // namespace sluice::parallel
