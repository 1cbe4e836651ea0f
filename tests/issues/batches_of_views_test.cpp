// Stages copied a mini-batch of strided views on the devices of the plan, which had not counted that.
#include <gtest/gtest.h>

#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "layers/reshape.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

TEST(BatchesOfViews, TakeTheBytesThatArePlanned) {
  constexpr int64_t kSamples = 8, kTokens = 4, kWidth = 520;
  layers::Graph graph;
  const auto x = graph.input("x", {kTokens, kWidth}), labels = graph.input("labels", {}, DType::i32);
  const auto hidden = graph.add("hidden", layers::Linear(kWidth, 30), x);
  const auto logits = graph.add("logits", layers::Linear(30 * kTokens, 21), graph.add("flat", layers::Flatten(), hidden));
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, labels}));

  const AdamW optimizer({.lr = 1e-2});
  const Tensor columns = empty({kSamples, kWidth, kTokens});
  fill_normal(columns, 0, 1, random_key(1, "x"));
  const Tensor view = columns.transpose(1, 2), classes = tensor_of({0, 1, 2, 3, 4, 5, 6, 7}, {kSamples}, DType::i32);
  std::vector<std::string> hashes;
  for (const Tensor& images : {view.contiguous(), view}) {
    const auto all = devices("cpu:0");
    const Plan chosen = plan(graph, all, {.batch = kSamples, .micro_batches = 4, .optimizer = &optimizer});
    const int64_t predicted = predict(graph, chosen, optimizer, kSamples, {}).devices[0].peak_bytes;
    all[0]->set_budget_bytes(predicted);
    Trainer trainer(graph, chosen, optimizer, {.seed = 3});
    ASSERT_NO_THROW(trainer.step(batch_of({{"x", images}, {"labels", classes}})));
    EXPECT_EQ(all[0]->peak_bytes(), predicted);
    hashes.push_back(trainer.weights_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace sluice::parallel
