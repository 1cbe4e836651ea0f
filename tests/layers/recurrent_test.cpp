#include "layers/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "layers/graph.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

constexpr int64_t kBatch = 2, kSteps = 3, kInputs = 3, kHidden = 2;

/// f(0), f(1) ... in f64.
template <class F>
Tensor sequence(const Shape& shape, const F& f) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(f(static_cast<double>(i)));
  return tensor_of(values, shape, DType::f64);
}
Tensor inputs() {
  return sequence({kBatch, kSteps, kInputs}, [](double i) { return std::cos(0.9 * i); });
}
Tensor hidden_states() {
  return sequence({kBatch, 4, kHidden}, [](double i) { return std::cos(0.4 * i + 1); });
}
Tensor cells() {
  return sequence({kBatch, 4, kHidden}, [](double i) { return std::cos(0.6 * i + 2); });
}

/// A call whose parameters are sines that begin at 1, 2 ...
Call call_of(const Module& module, std::vector<Var> inputs) {
  Call call;
  call.inputs = std::move(inputs);
  call.training = false;
  double start = 0;
  for (const auto& spec : module.parameters()) {
    ++start;
    call.parameters.push_back(Var(sequence(spec.shape, [&](double i) { return std::sin(0.7 * i + start) / 2; })));
  }
  return call;
}

void expect_near(const Tensor& found, const std::vector<double>& expected) {
  const auto values = found.to_vector();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-11) << "element " << i;
}

constexpr RecurrentOptions kTwoWays{.inputs = kInputs, .hidden = kHidden, .layers = 2, .bidirectional = true};

// By torch.nn.LSTM and torch.nn.GRU (2.x, f64) with num_layers=2, bidirectional=True and the same numbers: bias_hh 0, but for a GRU's new gate.
TEST(LSTM, OfTwoLayersAndDirectionsIsPyTorchs) {
  const LSTM layer(kTwoWays);
  expect_near(layer.forward(call_of(layer, {inputs(), hidden_states(), cells()})).value(),
              {-0.367132316800, -0.003852711792, 0.152028915441,  0.302557109973,  -0.289332256206, -0.122628942524,
               0.258826299626,  0.260430066012,  -0.305118841595, -0.177172123517, 0.183486803981,  0.364533723345,
               -0.092580637460, -0.426299947401, 0.088272527769,  0.185869310311,  -0.238294247490, -0.229421314742,
               -0.011024193659, 0.211184695920,  -0.271056959388, -0.199385850709, -0.277413660859, 0.183536272329});
}

TEST(GRU, OfTwoLayersAndDirectionsIsPyTorchs) {
  const GRU layer(kTwoWays);
  expect_near(layer.forward(call_of(layer, {inputs(), hidden_states()})).value(),
              {0.086010670656,  -0.127772490992, -0.727684057767, -0.654213134247, -0.029918656095, 0.213046020908,
               -0.791740449049, -0.627644559764, -0.243351714954, 0.436536312542,  -0.843837795067, -0.719715558079,
               0.253123111917,  0.724822979655,  0.293817398914,  -0.726026684585, -0.159148009500, 0.626466419223,
               0.522401514157,  -0.606902127659, -0.399604044723, 0.644152720145,  0.730715927838,  -0.159908836129});
}

TEST(LSTM, ContinuesFromStates) {
  const LSTM layer(kInputs, kHidden);
  const Tensor x = inputs(), zero = zeros({kBatch, kHidden}, DType::f64);
  const Tensor whole = layer.forward(call_of(layer, {x})).value();
  expect_near(layer.forward(call_of(layer, {x, zero, zero})).value(), whole.to_vector());
  expect_near(layer.forward(call_of(layer, {x, zero.reshape({kBatch, 1, kHidden})})).value(), whole.to_vector());
}

TEST(Recurrent, NamesAndShapesOfParameters) {
  const GRU layer({.inputs = 3, .hidden = 2, .layers = 2, .bidirectional = true});
  const auto specs = layer.parameters();
  ASSERT_EQ(specs.size(), 16U);
  const auto expect = [&](size_t number, const char* name, const Shape& shape) {
    EXPECT_EQ(specs[number].name, name);
    EXPECT_EQ(specs[number].shape, shape);
  };
  expect(0, "layer0.input.weight", {6, 3});
  expect(2, "layer0.recurrent.weight", {6, 2});
  expect(3, "layer0.recurrent.bias", {2});
  expect(4, "layer0.reverse.input.weight", {6, 3});
  expect(8, "layer1.input.weight", {6, 4});
  EXPECT_EQ(LSTM(3, 2).parameters()[0].shape, Shape({8, 3}));
  EXPECT_EQ(LSTM(3, 4).parameters()[0].initializer.high, 0.5);
}

template <class Layer>
void expect_gradients_of(const RecurrentOptions& options) {
  const int64_t count = options.layers * (options.bidirectional ? 2 : 1), width = options.hidden * (options.bidirectional ? 2 : 1);
  Graph graph;
  const Value x = graph.input("x", {kSteps, kInputs}, DType::f64), states = graph.input("states", {count, options.hidden}, DType::f64);
  const Value target = graph.input("target", {kSteps, width}, DType::f64);
  const Value y = graph.add("layer", Layer(options), {graph.add("first", Layer(kInputs, kInputs), x), states});
  graph.loss(graph.add("loss", MeanSquaredError(), {y, target}));
  const auto drawn = [](const Shape& shape, const char* name) {
    const Tensor values = empty(shape, DType::f64);
    fill_normal(values, 0, 1, random_key(3, name));
    return values;
  };
  sluice::testing::expect_gradients_like_differences(
      graph, {drawn({kBatch, kSteps, kInputs}, "x"), drawn({kBatch, count, options.hidden}, "s"), drawn({kBatch, kSteps, width}, "t")});
}

TEST(Recurrent, HasTheGradientsOfDifferences) {
  for (const RecurrentOptions& options : {RecurrentOptions{.inputs = kInputs, .hidden = 4}, kTwoWays}) {
    expect_gradients_of<LSTM>(options);
    expect_gradients_of<GRU>(options);
  }
}

TEST(Recurrent, NamesWhatDoesNotFit) {
  const LSTM layer(kInputs, kHidden);
  const auto failing = [&](std::vector<Var> given, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { layer.forward(call_of(layer, given)); }, words);
  };
  failing({zeros({kBatch, kInputs}, DType::f64)}, {"LSTM: needs x [B, T, 3], got [2, 3]"});
  failing({zeros({kBatch, kSteps, 5}, DType::f64)}, {"LSTM: needs x [B, T, 3], got [2, 3, 5]"});
  failing({inputs(), hidden_states()}, {"LSTM: needs states [B, 1, 2] as input 1, got [2, 4, 2]"});
  failing({inputs(), zeros({kBatch, 3}, DType::f64)}, {"needs the hidden state", "[2, 2]"});
  expect_error<UsageError>([] { GRU(0, 4); }, {"GRU", "inputs, hidden and layers > 0, got 0, 4 and 1"});
  expect_error<UsageError>([] { GRU({.inputs = 2, .hidden = 4, .dropout = 1}); }, {"probability"});
}

}  // namespace
}  // namespace sluice::layers
