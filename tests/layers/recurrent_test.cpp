#include "layers/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
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

Tensor drawn(const Shape& shape, const char* name) {
  const Tensor values = empty(shape, DType::f64);
  fill_normal(values, 0, 1, random_key(3, name));
  return values;
}

// Sequences of unequal lengths, one of them empty, with NaN in their padding.
constexpr int64_t kSamples = 4, kLongest = 5;
const std::vector<int64_t> kLengths{3, 5, 0, 1};

Tensor lengths() { return tensor_of({kLengths.begin(), kLengths.end()}, {kSamples}, DType::i32); }
Tensor padded_inputs() {
  const Tensor x = drawn({kSamples, kLongest, kInputs}, "x");
  for (int64_t b = 0; b < kSamples; ++b) fill(x[b].slice(0, kLengths[b], kLongest), std::nan(""));
  return x;
}

RecurrentOptions giving(RecurrentOptions options, RecurrentOutput output) {
  options.output = output;
  return options;
}

/// Outputs and, by the inputs and all parameters, gradients of a layer.
struct OutputAndGradients {
  Tensor y;
  std::vector<Tensor> gradients;
};
OutputAndGradients run_backward(const Module& layer, const std::vector<Tensor>& inputs, const Tensor& dy) {
  Call call = call_of(layer, {});
  std::vector<Var> leaves;
  for (const Tensor& x : inputs) {
    call.inputs.push_back(is_floating(x.dtype()) ? Var::input(x) : Var(x));
    if (is_floating(x.dtype())) leaves.push_back(call.inputs.back());
  }
  for (Var& weight : call.parameters) leaves.push_back(weight = Var::parameter(weight.value()));
  const Var y = layer.forward(call);
  return {y.value(), gradients(y, dy, leaves)};
}

void expect_close(const Tensor& found, const Tensor& expected, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto values = found.to_vector(), wanted = expected.to_vector();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-12) << what << ", element " << i;
}

template <class Layer>
std::vector<Tensor> padded_call(const Layer& layer, const RecurrentOptions& options, bool with_states) {
  std::vector<Tensor> inputs{padded_inputs()};
  const int64_t count = options.layers * (options.bidirectional ? 2 : 1);
  for (int i = 2; with_states && i < layer.input_count().most; ++i)
    inputs.push_back(drawn({kSamples, count, options.hidden}, i == 2 ? "hidden" : "cell"));
  inputs.push_back(lengths());
  return inputs;
}

/// Drawn, with NaN in the padding of steps.
Tensor padded_gradient(const Shape& y, RecurrentOutput output) {
  const Tensor dy = drawn(y, "dy");
  for (int64_t b = 0; output == RecurrentOutput::steps && b < kSamples; ++b) fill(dy[b].slice(0, kLengths[b], kLongest), std::nan(""));
  return dy;
}

void expect_zeros(const Tensor& x) { EXPECT_EQ(x.to_vector(), std::vector<double>(static_cast<size_t>(x.elements()))); }

/// Every sample as it is alone and without padding, which gets zeros; gradients of parameters are the sums of those.
template <class Layer>
void expect_samples_alone(const RecurrentOptions& options, bool with_states) {
  const Layer layer(options);
  const std::vector<Tensor> inputs = padded_call(layer, options, with_states);
  const Tensor dy = padded_gradient(layer.forward(call_of(layer, {inputs.begin(), inputs.end()})).shape(), options.output);
  const auto [y, found] = run_backward(layer, inputs, dy);
  const size_t count = inputs.size() - 1;
  std::vector<Tensor> sums(found.begin() + static_cast<int64_t>(count), found.end());
  for (Tensor& sum : sums) sum = zeros(sum.shape(), DType::f64);
  for (int64_t b = 0; b < kSamples; ++b) {
    SCOPED_TRACE(b);
    const bool has_steps = options.output == RecurrentOutput::steps;
    const auto sample = [&](const Tensor& x) { return x.slice(0, b, b + 1); };
    const auto items = [&](const Tensor& x, bool of_steps) { return of_steps ? sample(x).slice(1, 0, kLengths[b]) : sample(x); };
    expect_zeros(sample(found[0]).slice(1, kLengths[b], kLongest));
    if (has_steps) expect_zeros(sample(y).slice(1, kLengths[b], kLongest));
    if (kLengths[b] == 0) continue;
    std::vector<Tensor> own;
    for (size_t i = 0; i < count; ++i) own.push_back(items(inputs[i], i == 0));
    const auto alone = run_backward(layer, own, items(dy, has_steps));
    expect_close(items(y, has_steps), alone.y, "y");
    for (size_t i = 0; i < count; ++i) expect_close(items(found[i], i == 0), alone.gradients[i], "gradient of an input");
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = add(sums[i], alone.gradients[count + i]);
  }
  for (size_t i = 0; i < sums.size(); ++i) expect_close(found[count + i], sums[i], "gradient of a parameter");
}

TEST(RecurrentLengths, GiveWhatEverySampleGivesAloneAndNaNsInPaddingDoNoHarm) {
  for (const RecurrentOutput output : {RecurrentOutput::steps, RecurrentOutput::last_states})
    for (const RecurrentOptions& options : {RecurrentOptions{.inputs = kInputs, .hidden = 4}, kTwoWays})
      for (const bool with_states : {false, true}) {
        expect_samples_alone<LSTM>(giving(options, output), with_states);
        expect_samples_alone<GRU>(giving(options, output), with_states);
      }
}

TEST(RecurrentLengths, OfAnEmptySampleLeaveItsStates) {
  const LSTM layer(giving(kTwoWays, RecurrentOutput::last_states));
  const Tensor hidden = drawn({kSamples, 4, kHidden}, "hidden"), cell = drawn({kSamples, 4, kHidden}, "cell");
  const Tensor last = layer.forward(call_of(layer, {padded_inputs(), hidden, cell, lengths()})).value();
  EXPECT_EQ(last[2][0].to_vector(), hidden[2].to_vector());
  EXPECT_EQ(last[2][1].to_vector(), cell[2].to_vector());
  EXPECT_NE(last[1][1].to_vector(), cell[1].to_vector());
}

TEST(RecurrentLengths, OfTheWholeSequencesChangeNothing) {
  const GRU layer(kTwoWays);
  const Tensor whole = full({kBatch}, kSteps, DType::i32);
  EXPECT_EQ(layer.forward(call_of(layer, {inputs(), hidden_states(), whole})).value().to_vector(),
            layer.forward(call_of(layer, {inputs(), hidden_states()})).value().to_vector());
}

TEST(RecurrentLengths, ThatDoNotFitAreNamed) {
  const LSTM layer(kInputs, kHidden);
  const auto failing = [&](std::vector<Var> given, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { layer.forward(call_of(layer, given)); }, words);
  };
  failing({inputs(), lengths()}, {"LSTM: needs lengths i32 [2] as the last input, got i32 [4]", "number of items"});
  failing({inputs(), zeros({kBatch}, DType::f64)}, {"LSTM: needs lengths i32 [2]", "got f64 [2]"});
  failing({inputs(), tensor_of({2, 4}, {kBatch}, DType::i32)}, {"needs lengths in [0, 3], got 4 of sample 1; give the number"});
  const Tensor state = zeros({kBatch, kHidden}, DType::f64);
  failing({inputs(), state, state, state}, {"LSTM: needs at most 2 inputs of states, then lengths i32 [B], got 3 of states"});
}

template <class Layer>
void expect_to_continue(const RecurrentOptions& options) {
  const Layer whole(options), first(giving(options, RecurrentOutput::last_states));
  const Tensor x = inputs(), last = first.forward(call_of(first, {x.slice(1, 0, 2)})).value();
  expect_close(whole.forward(call_of(whole, {x.slice(1, 2, kSteps), last})).value(),
               whole.forward(call_of(whole, {x})).value().slice(1, 2, kSteps), "the items after");
}

TEST(Recurrent, ContinuesFromTheLastStates) {
  for (const int64_t layers : {1, 2}) {
    const RecurrentOptions options{.inputs = kInputs, .hidden = kHidden, .layers = layers};
    expect_to_continue<LSTM>(options);
    expect_to_continue<GRU>(options);
  }
}

template <class Layer>
void expect_gradients_of(const RecurrentOptions& options) {
  const int64_t count = options.layers * (options.bidirectional ? 2 : 1), width = options.hidden * (options.bidirectional ? 2 : 1);
  Graph graph;
  const Value x = graph.input("x", {kSteps, kInputs}, DType::f64), states = graph.input("states", {count, options.hidden}, DType::f64);
  const Value target = graph.input("target", {kSteps, width}, DType::f64);
  const Value y = graph.add("layer", Layer(options), {graph.add("first", Layer(kInputs, kInputs), x), states});
  graph.loss(graph.add("loss", MeanSquaredError(), {y, target}));
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
  failing({zeros({kBatch, kInputs}, DType::f64)}, {"LSTM: needs floats [B, T, 3], got f64 [2, 3]"});
  failing({zeros({kBatch, kSteps, 5}, DType::f64)}, {"LSTM: needs floats [B, T, 3], got f64 [2, 3, 5]"});
  failing({zeros({kBatch, kSteps, kInputs}, DType::i32)}, {"LSTM: needs floats [B, T, 3], got i32 [2, 3, 3]"});
  failing({inputs(), hidden_states()}, {"LSTM: needs states [B, 1, 2] as input 1, got [2, 4, 2]"});
  failing({inputs(), zeros({kBatch, 3}, DType::f64)}, {"needs the hidden state", "[2, 2]"});
  expect_error<UsageError>([] { GRU(0, 4); }, {"GRU", "inputs, hidden and layers > 0, got 0, 4 and 1"});
  expect_error<UsageError>([] { GRU({.inputs = 2, .hidden = 4, .dropout = 1}); }, {"probability"});
}

}  // namespace
}  // namespace sluice::layers
