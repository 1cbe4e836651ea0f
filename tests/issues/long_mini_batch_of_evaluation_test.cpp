// An evaluation could be stopped between mini-batches only, and one of them may take minutes.
#include <gtest/gtest.h>

#include <atomic>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;

constexpr int kSamples = 6;

/// Counts how often the CPU devices come through, and raises a flag when it is asked to.
struct Passage {
  std::atomic<int> visitors = 0;
  std::atomic<bool> raises = false, flag = false;
};

class Counting : public layers::Module {
 public:
  explicit Counting(std::shared_ptr<Passage> passage) : passage_(std::move(passage)) {}
  Var forward(const layers::Call& call) const override {
    if (call.inputs[0].value().device().kind() != DeviceKind::cpu) return call.inputs[0];
    ++passage_->visitors;
    if (passage_->raises) passage_->flag = true;
    return call.inputs[0];
  }

 private:
  std::shared_ptr<Passage> passage_;
};

TEST(ALongMiniBatchOfAnEvaluation, StopsBehindTheNodeThatIsBeingComputedAndLeavesTheTrainerAsItWas) {
  const auto first = std::make_shared<Passage>(), second = std::make_shared<Passage>();
  layers::Graph graph;
  const auto image = graph.input("image", {6});
  const auto label = graph.input("label", {}, DType::i32);
  const auto a = graph.add("first", Counting(first), image);
  const auto b = graph.add("second", Counting(second), a);
  const auto logits = graph.add("logits", layers::Linear(6, 5), b);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  const auto make = [&] {
    const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 3, .partition = PartitionRule::uniform});
    AdamW optimizer({.lr = 1e-2});
    optimizer.ema = 0.9;
    return std::make_unique<Trainer>(graph, chosen, optimizer);
  };
  const auto trainer = make(), undisturbed = make();
  const Batch batch = skip_batch(kSamples, 1);
  trainer->step(batch);
  undisturbed->step(batch);
  const std::string before = trainer->weights_hash();
  const int first_before = first->visitors, second_before = second->visitors;

  first->raises = true;
  expect_error<StoppedError>([&] { trainer->evaluate(batch, false, [&] { return first->flag.load(); }); }, {"stopped"});
  first->raises = false;
  EXPECT_EQ(first->visitors, first_before + 1);
  EXPECT_EQ(second->visitors, second_before);
  EXPECT_EQ(trainer->weights_hash(), before);
  EXPECT_EQ(trainer->evaluate(batch).loss_sum, undisturbed->evaluate(batch).loss_sum);
  trainer->step(batch);
  undisturbed->step(batch);
  EXPECT_EQ(trainer->weights_hash(), undisturbed->weights_hash());
}

}  // namespace
}  // namespace sluice::parallel
