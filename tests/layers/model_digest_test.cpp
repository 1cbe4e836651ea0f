#include "layers/model_digest.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "layers/activation.h"
#include "layers/attention.h"
#include "layers/batch_norm.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "models/amoebanet.h"
#include "models/resnet.h"
#include "models/transformer.h"

namespace sluice::layers {
namespace {

/// A small model, each part of which a test can change.
struct Parts {
  std::string input = "x", node = "first";
  int64_t width = 4;
  double deviation = 0, momentum = 0.9, drop = 0, smoothing = 0;
  bool has_shapes = true, bias = true, is_gelu = false, has_loss = true, has_output = true, swaps = false, ties = false;
};

Graph model(const Parts& parts) {
  Graph graph;
  const Value x = parts.has_shapes ? graph.input(parts.input, {parts.width}) : graph.input(parts.input);
  const Value label = graph.input("label", {}, DType::i32);
  Value a = parts.is_gelu ? graph.add(parts.node, LinearActivation(parts.width, 5, Activation::Kind::gelu_tanh, parts.deviation), x)
                          : graph.add(parts.node, Linear(parts.width, 5, parts.bias, parts.deviation), x);
  if (parts.drop > 0) a = graph.add("drop", Dropout(parts.drop), a);
  const Value b = graph.add("second", Linear(5, 5), a), c = graph.add("third", Linear(5, 5), parts.swaps ? a : b);
  if (parts.ties) graph.tie("second.weight", "third.weight");
  const Value loss = graph.add("loss", CrossEntropy(parts.smoothing), {parts.swaps ? b : c, label});
  if (parts.has_loss) graph.loss(loss);
  if (parts.has_output) graph.output(c);
  return graph;
}

TEST(ModelDigest, IsThirtyTwoDigitsTheSameForEveryMaking) {
  EXPECT_EQ(model_digest(model({})), model_digest(model({})));
  EXPECT_EQ(model_digest(model({})).size(), 32u);
  const auto deep = [] { return models::resnet({}); };
  EXPECT_EQ(model_digest(deep()), model_digest(deep()));
}

TEST(ModelDigest, TellsModelsApart) {
  std::set<std::string> digests;
  int models = 0;
  const auto add = [&](const std::function<void(Parts&)>& change) {
    Parts parts;
    change(parts);
    digests.insert(model_digest(model(parts)));
    EXPECT_EQ(static_cast<int>(digests.size()), ++models) << "change number " << models - 1 << " is not seen";
  };
  add([](Parts&) {});
  add([](Parts& p) { p.input = "image"; });
  add([](Parts& p) { p.node = "stem"; });
  add([](Parts& p) { p.width = 3; });
  add([](Parts& p) { p.deviation = 0.02; });
  add([](Parts& p) { p.has_shapes = false; });
  add([](Parts& p) { p.bias = false; });
  add([](Parts& p) { p.is_gelu = true; });
  add([](Parts& p) { p.drop = 0.5; });
  add([](Parts& p) { p.drop = 0.4; });
  add([](Parts& p) { p.smoothing = 0.1; });
  add([](Parts& p) { p.has_loss = false; });
  add([](Parts& p) { p.has_output = false; });
  add([](Parts& p) { p.swaps = true; });
  add([](Parts& p) { p.ties = true; });
}

/// Replicas dropped with probabilities of their own, and nobody said so.
TEST(ModelDigest, SeesTheConstantsOfOps) {
  const auto of = [](auto module) {
    Graph graph;
    graph.add("only", std::move(module), graph.input("x", {3, 4}));
    return model_digest(graph);
  };
  EXPECT_EQ(of(Dropout(0.1)), of(Dropout(0.1)));
  EXPECT_NE(of(Dropout(0.1)), of(Dropout(0.2)));
  EXPECT_NE(of(Residual(Linear(4, 4), 0.1)), of(Residual(Linear(4, 4), 0.2)));
  EXPECT_NE(of(Sequence(Linear(4, 4), Dropout(0.1))), of(Sequence(Linear(4, 4), Dropout(0.1 + 1e-9))));
  EXPECT_NE(of(LayerNorm(4, 1e-5)), of(LayerNorm(4, 1e-6)));
  EXPECT_NE(of(RMSNorm(4, 1e-5)), of(RMSNorm(4, 1e-6)));
  EXPECT_NE(of(ReLU()), of(SiLU()));
  EXPECT_NE(of(MultiHeadAttention({.width = 4, .heads = 2})), of(MultiHeadAttention({.width = 4, .heads = 2, .causal = false})));
}

TEST(ModelDigest, SeesTheProbabilityOfADroppedPath) {
  const auto keeping = [](double keep) {
    return model_digest(models::amoebanet({.layers = 3, .filters = 16, .drop_path_keep = keep, .drop_path_steps = 100}));
  };
  EXPECT_EQ(keeping(0.9), keeping(0.9));
  EXPECT_NE(keeping(0.9), keeping(0.8));
}

/// The interface of a composite says nothing of the modules in it, but what they record does.
TEST(ModelDigest, SeesTheOpsWithinAComposite) {
  const auto with = [](auto inner) {
    Graph graph;
    const Value x = graph.input("x", {4});
    graph.add("block", Sequence().then("in", std::move(inner)).then("out", Linear(4, 4)), x);
    return model_digest(graph);
  };
  EXPECT_NE(with(Linear(4, 4)), with(LinearActivation(4, 4, Activation::Kind::gelu_tanh)));
}

}  // namespace
}  // namespace sluice::layers
