// A loss that ignored Call::loss_scale made gradients M times too large with M micro-batches, in silence.
#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"
#include "layers/linear.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

/// The mean over the micro-batch.
class MeanLoss : public layers::Module {
 public:
  layers::InputCount input_count() const override { return {2, 2}; }
  Var forward(const layers::Call& call) const override {
    return cross_entropy(call.inputs[0], call.inputs[1].value(), {}, 1 / static_cast<double>(call.inputs[0].dim(0)));
  }
  double loss_weight(const std::vector<Tensor>& inputs, int64_t) const override { return static_cast<double>(inputs[1].elements()); }
};

/// A child that scales as it should.
class WrappedLoss : public layers::Composite {
 public:
  WrappedLoss() : child_(add("child", layers::CrossEntropy())) {}
  layers::InputCount input_count() const override { return {2, 2}; }
  Var forward(const layers::Call& call) const override { return run(call, child_, call.inputs); }
  double loss_weight(const std::vector<Tensor>& inputs, int64_t) const override { return static_cast<double>(inputs[1].elements()); }

 private:
  int child_;
};

template <class Loss>
double gradient_norm(int micro_batches) {
  layers::Graph graph;
  const layers::Value image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const layers::Value logits = graph.add("logits", layers::Linear(6, 5), image);
  graph.loss(graph.add("loss", Loss(), {logits, label}));
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = 8, .micro_batches = micro_batches, .partition = PartitionRule::uniform});
  Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
  const Tensor pixels = empty({8, 6});
  fill_normal(pixels, 0, 1, random_key(1, "image"));
  return trainer.step(batch_of({{"image", pixels}, {"label", sluice::testing::random_tokens({8}, 5, 1)}})).gradient_norm;
}

TEST(ForgottenLossScale, IsAnErrorOfTheFirstStep) {
  expect_error<UsageError>([] { gradient_norm<MeanLoss>(4); }, {"Call::loss_scale", "node 'loss'", "multiply by it"});
}

TEST(ForgottenLossScale, IsNoticedInAChildToo) { EXPECT_NEAR(gradient_norm<WrappedLoss>(4), gradient_norm<WrappedLoss>(1), 1e-6); }

}  // namespace
}  // namespace sluice::parallel
