// A stage handed views on to its next node as they were, a transfer row-major copies, and products of a view have other bits than those of
// its copy: weights depended on where a graph was cut.
#include <gtest/gtest.h>

#include "autograd/ops/concat.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reshape.h"
#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/reshape.h"
#include "tests/parallel/pipelines.h"

namespace sluice::layers {
namespace {

constexpr int64_t kRows = 16, kColumns = 512, kClasses = 10;  // sums of fewer than 512 have the same bits

/// Each product reads a view that another node made, and in backward a slice of the gradient that the node behind it left.
Graph graph_of_views() {
  Graph graph;
  const Value x = graph.input("x", {kRows, 2 * kColumns}), labels = graph.input("labels", {}, DType::i32);
  const Value wide = graph.add("wide", Linear(2 * kColumns, 2 * kColumns), x);
  const auto products_of = [&](const char* name, int64_t first) {
    const Lambda columns("columns", [first](const Var& all) { return slice(all, -1, first, first + kColumns); });
    const Value view = graph.add(join(name, " half"), columns, wide);
    return graph.add(join(name, " products"), Lambda("products", [](const Var& a) { return matmul(matmul(a, a, false, true), a); }), view);
  };
  const Value left = products_of("left", 0), right = products_of("right", kColumns);
  const auto beside = [](const Var& a, const Var& b) { return concat({a, b}, -1); };
  const Value both = graph.add("beside", Lambda("beside", beside), {left, right});
  const Value turned = graph.add("turned", Lambda("turned", [](const Var& a) { return transpose(a, 1, 2); }), both);
  const Value again = graph.add("again", Lambda("products", [](const Var& a) { return matmul(a, a, true); }), turned);
  const Value logits = graph.add("logits", Linear(kRows * kRows, kClasses), graph.add("flat", Flatten(), again));
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, labels}));
  return graph;
}

Batch random_batch(uint64_t seed) {
  constexpr int64_t kSamples = 8;
  const Tensor x = empty({kSamples, kRows, 2 * kColumns});
  fill_normal(x, 0, 0.1, random_key(seed, "x"));
  return batch_of({{"x", x}, {"labels", tensor_of({0, 1, 2, 3, 4, 5, 6, 7}, {kSamples}, DType::i32)}});
}

TEST(ViewsBetweenNodes, GiveTheSameWeightsWhereverTheGraphIsCut) {
  const Graph graph = graph_of_views();
  const testing::Outcome whole = testing::train(graph, random_batch, {});
  const int nodes = static_cast<int>(graph.nodes().size());
  for (int cut = 1; cut < nodes; ++cut) {
    SCOPED_TRACE(join("cut before '", graph.nodes()[cut].name, "'"));
    for (const auto remat : {parallel::Remat::none, parallel::Remat::full})
      EXPECT_EQ(testing::train(graph, random_batch, {.devices = 2, .remat = remat, .partition = parallel::Partition{{cut, nodes - cut}}}),
                whole);
  }
}

}  // namespace
}  // namespace sluice::layers
