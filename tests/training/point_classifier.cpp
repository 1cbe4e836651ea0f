#include "tests/training/point_classifier.h"

#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/operators.h"
#include "core/random.h"
#include "layers/activation.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"

namespace sluice::training {

layers::Graph point_classifier() {
  layers::Graph graph;
  const auto x = graph.input("x", {4}), label = graph.input("label", {}, DType::i32);
  const auto hidden = graph.add("relu", layers::ReLU(), graph.add("hidden", layers::Linear(4, 12), x));
  const auto logits = graph.add("logits", layers::Linear(12, 2), hidden);
  graph.output(logits);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  return graph;
}

data::TensorDataset::Inputs labelled_points(int64_t samples, uint64_t key) {
  const Tensor x = randn({samples, 4}, key);
  return {{"x", x}, {"label", cast(x.select(1, 0) * x.select(1, 1) > 0.0, DType::i32)}};
}

data::DatasetPtr point_dataset() { return std::make_shared<data::TensorDataset>(labelled_points(256, 1), labelled_points(64, 2)); }

}  // namespace sluice::training
