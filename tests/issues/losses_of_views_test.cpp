// Cross-entropy makes its gradient in place of its logits where nothing else holds them, which is up to where a graph is cut; and the bits of
// an exponential were up to the address that it was written to.
#include <gtest/gtest.h>

#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/reshape.h"
#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "tests/parallel/pipelines.h"

namespace sluice::layers {
namespace {

constexpr int64_t kSamples = 4, kWidth = 8, kTokens = 5;

void expect_one_answer_wherever_cut(const Graph& graph, const testing::BatchMaker& batch) {
  const testing::Outcome whole = testing::train(graph, batch, {});
  const int nodes = static_cast<int>(graph.nodes().size());
  for (int cut = 1; cut < nodes; ++cut) {
    SCOPED_TRACE(join("cut before '", graph.nodes()[cut].name, "'"));
    EXPECT_EQ(testing::train(graph, batch, {.devices = 2, .partition = parallel::Partition{{cut, nodes - cut}}}), whole);
  }
}

Tensor normal_inputs(const Shape& shape, uint64_t seed) {
  const Tensor x = empty(shape);
  fill_normal(x, 0, 1, random_key(seed, "x"));
  return x;
}

/// The loss of all tokens but the first: of one sample a view of neighbouring elements, at an address of its own.
class LaterTokens : public Module {
 public:
  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override {
    const Tensor targets = call.inputs[1].value().slice(1, 1);
    return cross_entropy(slice(call.inputs[0], 1, 1, kTokens), targets, {}, call.loss_scale);
  }
  double loss_weight(const std::vector<Tensor>& inputs, int64_t) const override {
    return static_cast<double>(inputs[1].slice(1, 1).elements());
  }
};

TEST(LossesOfViews, WithinTheLossGiveOneAnswer) {
  constexpr int64_t kClasses = 37;
  Graph graph;
  const Value x = graph.input("x", {kTokens, kWidth}), labels = graph.input("labels", {kTokens}, DType::i32);
  const Value logits = graph.add("logits", Linear(kWidth, kClasses), graph.add("hidden", Linear(kWidth, kWidth), x));
  graph.output(logits);
  graph.loss(graph.add("loss", LaterTokens(), {logits, labels}));
  expect_one_answer_wherever_cut(graph, [](uint64_t seed) {
    std::vector<double> classes;
    for (int i = 0; i < kSamples * kTokens; ++i) classes.push_back(i * 7 % kClasses);
    return batch_of(
        {{"x", normal_inputs({kSamples, kTokens, kWidth}, seed)}, {"labels", tensor_of(classes, {kSamples, kTokens}, DType::i32)}});
  });
}

/// The slice lacks less than what storages are rounded to, so that dense() takes it for all of its storage.
TEST(LossesOfViews, OfAnotherNodeGiveOneAnswer) {
  constexpr int64_t kClasses = 1000, kReserved = 3;
  Graph graph;
  const Value x = graph.input("x", {kWidth}), labels = graph.input("labels", {}, DType::i32);
  const Value logits = graph.add("logits", Linear(kWidth, kClasses), x);
  const Value known = graph.add("known", Lambda("known", [](const Var& a) { return slice(a, 1, kReserved, kClasses); }), logits);
  graph.output(known);
  graph.loss(graph.add("loss", CrossEntropy(), {known, labels}));
  expect_one_answer_wherever_cut(graph, [](uint64_t seed) {
    return batch_of({{"x", normal_inputs({kSamples, kWidth}, seed)}, {"labels", tensor_of({1, 40, 700, 996}, {kSamples}, DType::i32)}});
  });
}

}  // namespace
}  // namespace sluice::layers
