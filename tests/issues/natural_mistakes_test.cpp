// What anybody may get wrong with the C++ API: every message says where, what was needed, what came, and what to do.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "sluice/sluice.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

using namespace layers;

/// Two layers over 8 numbers, four classes.
struct Classifier {
  Graph graph;
  Value x = graph.input("x", {8}), label = graph.input("label", {}, DType::i32);
  Value hidden = graph.add("hidden", Sequence(Linear(8, 16), ReLU()), x);
  Value logits = graph.add("logits", Linear(16, 4), hidden);
};

Graph whole_graph() {
  Classifier of;
  of.graph.output(of.logits);
  of.graph.loss(of.graph.add("loss", CrossEntropy(), {of.logits, of.label}));
  return of.graph;
}

Tensor numbers(int64_t samples = 8) { return randn({samples, 8}, 1); }
Tensor labels(int64_t samples = 8) { return zeros({samples}, DType::i32); }
Batch batch() { return batch_of({{"x", numbers()}, {"label", labels()}}); }

parallel::Plan plan_of(const Graph& graph, const char* names = "cpu:0", const parallel::PlanOptions& options = {.batch = 8}) {
  return parallel::plan(graph, devices(names), options);
}
void step(const Graph& graph, const Batch& samples = batch(), const Optimizer& optimizer = SGD({.lr = 0.1}),
          const parallel::PlanOptions& options = {.batch = 8}) {
  parallel::Trainer(graph, plan_of(graph, "cpu:0", options), optimizer).step(samples);
}
void run_loop(const data::TensorDataset::Inputs& train, const training::LoopOptions& options) {
  const Graph graph = whole_graph();
  parallel::Trainer trainer(graph, plan_of(graph), SGD({.lr = 0.1}));
  training::Loop(trainer, std::make_shared<data::TensorDataset>(train), options).run();
}
data::TensorDataset::Inputs samples(int64_t count) { return {{"x", numbers(count)}, {"label", labels(count)}}; }

/// Layers on an image or a sequence.
template <class M>
void add_to(const Shape& sample, M module) {
  Graph graph;
  graph.add("layer", std::move(module), graph.input("image", sample));
}

/// As one writes it who trains in f32.
struct Product : Module {
  std::vector<ParameterSpec> parameters() const override { return {{"weight", {8, 4}, Initializer::normal(1)}}; }
  Var forward(const Call& call) const override { return matmul(call.inputs[0], parameter(call, "weight")); }
};

struct Mistake {
  const char* name;
  std::function<void()> make;
  std::vector<std::string> words;
};

const std::vector<Mistake>& mistakes_of_graphs() {
  static const std::vector<Mistake> all{
      {"AnotherWidth",
       [] {
         Classifier of;
         of.graph.add("wide", Linear(32, 4), of.hidden);
       },
       {"node 'wide'", "Linear: needs floats [..., 32], got f32 [24, 16]", "the width that comes"}},
      {"NoFlatten",
       [] {
         add_to({4, 4, 2}, Linear(32, 10));
       },
       {"node 'layer'", "needs floats [..., 32], got f32 [24, 4, 4, 2]", "put a Flatten before it"}},
      {"IntegersIntoALayer",
       [] {
         Classifier of;
         of.graph.add("ids", Linear(1, 4), of.label);
       },
       {"node 'ids'", "needs floats", "got i32 [24]"}},
      {"TwoInputsForOne",
       [] {
         Classifier of;
         of.graph.add("two", Linear(16, 4), {of.hidden, of.x});
       },
       {"node 'two'", "needs 1 input, got 2"}},
      {"ANameTwice",
       [] {
         Classifier of;
         of.graph.add("hidden", Linear(16, 4), of.hidden);
       },
       {"name 'hidden' is taken", "must differ"}},
      {"AValueOfAnotherGraph",
       [] {
         Classifier of, other;
         of.graph.add("mixed", Linear(16, 4), other.hidden);
       },
       {"node 'mixed'", "of another graph", "input() and add()"}},
      {"AnInputAfterANode",
       [] {
         Classifier of;
         of.graph.input("late", {3});
       },
       {"inputs before the first node", "'late'"}},
      {"LabelsInFloats",
       [] {
         Graph graph;
         const Value x = graph.input("x", {8}), label = graph.input("label", {});
         graph.add("loss", CrossEntropy(), {graph.add("logits", Linear(8, 4), x), label});
       },
       {"node 'loss'", "needs integer targets [24]", "got f32 [24]"}},
      {"ALossWithoutItsTarget",
       [] {
         Classifier of;
         of.graph.add("loss", CrossEntropy(), of.logits);
       },
       {"node 'loss'", "needs 2 or 3 inputs, got 1"}},
      {"ALossThatIsNoNumber",
       [] {
         Classifier of;
         of.graph.loss(of.logits);
       },
       {"single number", "node 'logits' makes [24, 4]", "sum it up"}},
      {"TwoLosses",
       [] {
         Graph graph = whole_graph();
         Classifier of;
         of.graph.loss(of.graph.add("a", CrossEntropy(), {of.logits, of.label}));
         of.graph.loss(of.graph.add("b", CrossEntropy(), {of.logits, of.label}));
       },
       {"'a' already, got 'b'", "in a node of their own"}},
      {"NoLoss", [] { step(Classifier().graph); }, {"has no loss", "Graph::loss"}},
      {"NoOutput",
       [] { training::Predictor(Classifier().graph, parallel::Weights(), devices("cpu:0")); },
       {"has no output", "Graph::output"}},
      {"SumOfOtherShapes",
       [] {
         Graph graph;
         const Value a = graph.input("a", {4}), b = graph.input("b", {5});
         graph.add("sum", Add(), {a, b});
       },
       {"node 'sum'", "shapes that broadcast", "[24, 4] and [24, 5]"}},
      {"ChannelsFirst",
       [] {
         add_to({3, 32, 32}, Conv2d(3, 8, {3, 3}));
       },
       {"node 'layer'", "[batch, height, width, 3], got f32 [24, 3, 32, 32]", "permute({0, 2, 3, 1})"}},
      {"OtherChannels",
       [] {
         add_to({32, 32, 1}, Conv2d(3, 8, {3, 3}));
       },
       {"[batch, height, width, 3], got f32 [24, 32, 32, 1]", "number of channels"}},
      {"AWindowBeyondTheImage",
       [] {
         add_to({4, 4, 1}, Conv2d(1, 8, {5, 5, 1, 1, Padding::valid}));
       },
       {"node 'layer'", "at least 5 x 5", "got [24, 4, 4, 1]", "padding `same`"}},
      {"AMatrixForAnLstm", [] { add_to({8}, LSTM(8, 4)); }, {"node 'layer'", "LSTM: needs floats [B, T, 8], got f32 [24, 8]"}},
      {"HeadsThatDoNotDivide",
       [] { TransformerEncoderLayer({.width = 10, .heads = 3}); },
       {"3 heads for width 10", "change heads or width"}},
      {"DropoutOfAll", [] { Dropout(1); }, {"Dropout", "[0, 1), got 1"}},
      {"GroupsThatDoNotDivide", [] { GroupNorm(3, 8); }, {"GroupNorm", "divide the channels", "3 groups of 8"}},
      {"FreezingNothing", [] { whole_graph().freeze("trunk.*"); }, {"freeze", "got 'trunk.*'", "'hidden.0.weight'"}},
      {"StartingWhatIsNotThere",
       [] { whole_graph().initialize("hidden.weight", Initializer::ones()); },
       {"no parameter 'hidden.weight'", "did you mean 'hidden.0.weight'"}},
      {"StartingWithAnotherShape",
       [] {
         whole_graph().initialize("logits.weight", Initializer::values(zeros({4, 8})));
       },
       {"'logits.weight'", "[4, 16]", "got f32 [4, 8]", "reshape"}},
  };
  return all;
}

const std::vector<Mistake>& mistakes_of_training() {
  static const std::vector<Mistake> all{
      {"AMissingInput",
       [] {
         step(whole_graph(), batch_of({{"x", numbers()}}));
       },
       {"asks for input 'label'", "not in the batch", "x"}},
      {"AMisspeltInput",
       [] {
         step(whole_graph(), batch_of({{"x", numbers()}, {"labels", labels()}}));
       },
       {"input 'label'", "did you mean 'labels'"}},
      {"SamplesOfAnotherShape",
       [] {
         step(whole_graph(), batch_of({{"x", zeros({8, 9})}, {"label", labels()}}));
       },
       {"[..., 8], got f32 [8, 9]", "node 'hidden', stage 0, micro-batch 0"}},
      {"SamplesOfAnotherDtype",
       [] {
         step(whole_graph(), batch_of({{"x", numbers()}, {"label", zeros({8}, DType::i64)}}));
       },
       {"'label'", "i32", "got i64", "convert them"}},
      {"InputsOfOtherLengths",
       [] {
         batch_of({{"x", numbers(8)}, {"label", labels(7)}});
       },
       {"samples in every input", "for 'x'"}},
      {"ALabelTooHigh",
       [] {
         step(whole_graph(), batch_of({{"x", numbers()}, {"label", full({8}, 4, DType::i32)}}));
       },
       {"targets in [0, 4)", "got 4 at row 0", "node 'loss'"}},
      {"NotANumber",
       [] {
         step(whole_graph(), batch_of({{"x", full({8, 8}, NAN)}, {"label", labels()}}));
       },
       {"not finite", "node 'hidden'", "no weight was changed", "learning rate"}},
      {"MoreMicroBatchesThanSamples",
       [] { plan_of(whole_graph(), "cpu:0", {.batch = 8, .micro_batches = 9}); },
       {"PlanOptions::micro_batches", "1 to the 8 samples", "got 9"}},
      {"AnOwnLayerOfF32InputsInBf16",
       [] {
         Graph graph;
         const auto x = graph.input("x", {8}), target = graph.input("target", {4});
         graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("own", Product(), x), target}));
         parallel::PlanOptions options{.batch = 8};
         options.precision = Precision::bf16;
         step(graph, batch_of({{"x", numbers()}, {"target", zeros({8, 4})}}), SGD({}), options);
       },
       {"node 'own'", "one floating dtype", "f32 [8, 8]", "bf16 [8, 4]", "cast one of them"}},
      {"AGradientThatIsAStridedView",
       [] {
         const Tensor weight = zeros({2, 3});
         const Var w = Var::parameter(weight);
         const Tensor gradient = gradients(sum(permute(w, {1, 0}) * Var(randn({3, 2}, 1))), {w})[0];
         SGD({}).step({{weight, gradient, {zeros({2, 3})}}}, {0.1, 1});
       },
       {"sgd_step", "a gradient", "strided view", "contiguous()"}},
      {"NoSamples", [] { plan_of(whole_graph(), "cpu:0", {.batch = 0}); }, {"PlanOptions::batch", "got 0"}},
      {"MoreDevicesThanNodes", [] { plan_of(whole_graph(), "cpu:0,cpu:1,cpu:2,cpu:3"); }, {"4 devices for 3 nodes", "fewer devices"}},
      {"APartitionOfAnotherModel",
       [] {
         plan_of(whole_graph(), "cpu:0,cpu:1", {.batch = 8, .partition = parallel::partition_given({1, 1}, 2)});
       },
       {"PlanOptions::partition", "3 nodes", "the sum 2"}},
      {"APlanOfAnotherModel",
       [] {
         Graph other;
         const Value x = other.input("x", {8});
         other.loss(other.add("loss", MeanSquaredError(), {other.add("only", Linear(8, 8), x), x}));
         const Graph graph = whole_graph();
         parallel::Trainer(graph, plan_of(other), SGD({.lr = 1}));
       },
       {"Plan::partition", "3 nodes", "got 2"}},
      {"ADeviceMisspelt", [] { devices("cpu0"); }, {"'cpu0'", "did you mean 'cpu'", "cpu:0"}},
      {"TooLittleMemory",
       [] { step(whole_graph(), batch(), SGD({.lr = 0.1}), {.batch = 8, .memory = 1000}); },
       {"cpu:0", "node 'hidden'", "budget of 1000", "lacks", "more stages"}},
      {"ANegativeRate", [] { step(whole_graph(), batch(), SGD({.lr = -1})); }, {"sgd: needs lr in [0, inf), got -1"}},
      {"AllFrozen",
       [] {
         Graph graph = whole_graph();
         graph.freeze("*");
         step(graph);
       },
       {"all of its 4 parameters are frozen", "freeze fewer"}},
      {"AGroupOfNothing",
       [] {
         SGD optimizer({.lr = 0.1});
         optimizer.groups({{"head.*", {.lr = 0.2}}});
         step(whole_graph(), batch(), optimizer);
       },
       {"got 'head.*'", "'hidden.0.weight'"}},
      {"AModuleThatThrows",
       [] {
         Classifier of;
         const auto thrower = Lambda("mine", [](const Var& x) -> Var {
           if (x.value().device().kind() == DeviceKind::cpu) throw std::runtime_error("of my own");
           return x;
         });
         of.graph.loss(of.graph.add("loss", CrossEntropy(), {of.graph.add("mine", thrower, of.logits), of.label}));
         step(of.graph);
       },
       {"of my own", "node 'mine', stage 0, micro-batch 0"}},
      {"ABatchBeyondTheData",
       [] { run_loop(samples(4), {.steps = 1, .batch = 8}); },
       {"4 training samples", "batch of 8", "smaller batch"}},
      {"EvaluatingNothing",
       [] { run_loop(samples(16), {.steps = 1, .batch = 8, .evaluate_every = 1}); },
       {"LoopOptions::evaluate_every", "validation samples, got none"}},
      {"DataWithoutAnInput",
       [] {
         run_loop({{"x", numbers(16)}}, {.steps = 1, .batch = 8});
       },
       {"input 'label'", "has x"}},
      {"ABatchOfNothing", [] { batch_of({}); }, {"at least one input, got none", "a tensor for each input"}},
      {"TyingTheWrongWayRound",
       [] {
         layers::Graph graph;
         const auto x = graph.input("x", {4});
         graph.add("second", layers::Linear(4, 4), graph.add("first", layers::Linear(4, 4), x));
         graph.tie("second.weight", "first.weight");
       },
       {"'second.weight' to come before 'first.weight'", "exchange the two"}},
      {"WatchingNoMetric",
       [] { run_loop(samples(16), {.steps = 1, .batch = 8, .watched = "acuracy"}); },
       {"LoopOptions::watched", "got \"acuracy\""}},
      {"RowsOfOtherLengths",
       [] {
         data::TensorDataset({{"x", zeros({4, 2})}, {"y", zeros({5})}});
       },
       {"samples of 'y' as of 'x', 4, got 5"}},
      {"NoFolderOfCheckpoints", [] { parallel::find_checkpoint("nowhere"); }, {"nowhere", "needs a checkpoint", "found none"}},
      {"NoWeights", [] { training::Predictor(whole_graph(), parallel::Weights(), devices("cpu:0")); }, {"need 'hidden.0.weight'"}},
      {"NoImages", [] { data::open_idx("nowhere"); }, {"nowhere", "train-images-idx3-ubyte"}},
  };
  return all;
}

const std::vector<Mistake>& mistakes_of_tensors() {
  static const std::vector<Mistake> all{
      {"ItemOfSeveral", [] { zeros({3}).item(); }, {"exactly one element", "f32 [3]"}},
      {"AnIndexBeyondTheEnd", [] { zeros({3})[5]; }, {"[-3, 3), got 5"}},
      {"ASliceThatEndsBeforeItBegins", [] { zeros({3}).slice(0, 2, 1); }, {"begin <= end", "[2, 1)"}},
      {"AnotherNumberOfElements",
       [] {
         zeros({3, 4}).reshape({5, 2});
       },
       {"needs 12 elements", "[5, 2]"}},
      {"ProductOfOtherShapes",
       [] {
         matmul(zeros({3, 4}), zeros({3, 4}));
       },
       {"equal inner extents", "[3, 4] and [3, 4]"}},
      {"OfTwoDtypes", [] { zeros({3}) + zeros({3}, DType::i32); }, {"one dtype", "f32 [3]", "i32 [3]", "cast one"}},
      {"OnTwoDevices", [] { zeros({2}) + zeros({2}, DType::f32, devices("cpu:1")[0]); }, {"one device", "cpu:0", "cpu:1", "Tensor::to()"}},
      {"ElementsThatAreOnlyCounted", [] { zeros({2}, DType::f32, devices("meta:0")[0]).to_vector(); }, {"meta:0", "only count"}},
      {"PartsOfOtherShapes",
       [] {
         concat({zeros({2, 3}), zeros({3, 3})}, 1);
       },
       {"differ in axis 1 only", "[2, 3]", "[3, 3]"}},
      {"APartThatNobodyMade",
       [] {
         concat({zeros({2, 3}), Tensor()}, 0);
       },
       {"concat: needs tensors", "as part 1", "make it"}},
      {"AConditionInFloats", [] { where(zeros({3}), zeros({3}), zeros({3})); }, {"condition of u8", "such as x != 0"}},
      {"MoreThanThereAre", [] { topk(zeros({3}), 5, 0); }, {"k from 0 to 3", "got 5"}},
      {"BackwardFromAVector",
       [] {
         const Var w = Var::parameter(ones({3}));
         gradients(w * 2, full({}, 1), {w});
       },
       {"value's shape [3]", "got f32 []"}},
      {"AnOpWithoutABackward",
       [] { record("my_op", ones({3}), {Var::parameter(ones({3}))}, {}, {}, nullptr); },
       {"my_op: needs a backward function", "a Var of the tensor alone"}},
      {"BackwardTwice",
       [] {
         const Var w = Var::parameter(ones({3})), loss = sum(square(w));
         gradients(loss, full({}, 1), {w});
         gradients(loss, full({}, 1), {w});
       },
       {"freed", "Saved::kept"}},
  };
  return all;
}

class NaturalMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(NaturalMistakes, AreToldWithTheirCure) {
  try {
    GetParam().make();
    FAIL() << "no error";
  } catch (const std::exception& error) {
    for (const auto& word : GetParam().words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nlacks: " << word;
  }
}

std::string name_of_mistake(const ::testing::TestParamInfo<Mistake>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Graphs, NaturalMistakes, ::testing::ValuesIn(mistakes_of_graphs()), name_of_mistake);
INSTANTIATE_TEST_SUITE_P(Training, NaturalMistakes, ::testing::ValuesIn(mistakes_of_training()), name_of_mistake);
INSTANTIATE_TEST_SUITE_P(Tensors, NaturalMistakes, ::testing::ValuesIn(mistakes_of_tensors()), name_of_mistake);

// The error told users of the one header of a class that it did not have.
TEST(ModulesByHand, AreToldToMakeTheirTablesAndCan) {
  const Positions positions(Positions::Kind::sinusoidal, 4, 2);
  Call call;
  call.inputs = {Var(zeros({1, 4, 2}))};
  try {
    positions.forward(call);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("make them with layers::Tables"), std::string::npos) << error.what();
  }
  call.tables = Tables(default_device(), DType::f32).of(positions);
  EXPECT_EQ(positions.forward(call).value().to_vector(), sinusoids({.count = 4, .width = 2}, DType::f32, default_device()).to_vector());
}

/// A folder with one checkpoint of the classifier.
class MistakesWithCheckpoints : public ::testing::Test {
 protected:
  MistakesWithCheckpoints() { run_loop(samples(16), {.steps = 2, .batch = 8, .output = output_}); }

  template <class F>
  static void expect_told(const F& mistake, const std::vector<std::string>& words) {
    try {
      mistake();
      FAIL() << "no error";
    } catch (const std::exception& error) {
      for (const auto& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nlacks: " << word;
    }
  }

  TemporaryFolder folder_;
  std::string output_ = (folder_.path() / "run").string();
};

TEST_F(MistakesWithCheckpoints, OfAnotherModelAreTold) {
  Graph other;
  other.output(other.add("logits", Linear(8, 4), other.input("x", {8})));
  expect_told([&] { training::Predictor(other, parallel::find_checkpoint(output_), devices("cpu:0")); },
              {"'logits.weight'", "the model needs f32 [4, 8], the checkpoint has f32 [4, 16]"});
}

TEST_F(MistakesWithCheckpoints, ThatAreDamagedAreTold) {
  std::filesystem::resize_file(std::filesystem::path(output_) / "step-00000002" / "model.safetensors", 100);
  expect_told([&] { parallel::find_checkpoint(output_); }, {"found none that is whole", "model.safetensors", "has 100"});
}

TEST_F(MistakesWithCheckpoints, InUseAreTold) {
  const Graph graph = whole_graph();
  parallel::Trainer trainer(graph, plan_of(graph), SGD({.lr = 0.1}));
  const auto data = std::make_shared<data::TensorDataset>(samples(16));
  const training::Loop first(trainer, data, {.steps = 1, .batch = 8, .output = output_});
  expect_told([&] { training::Loop(trainer, data, {.steps = 1, .batch = 8, .output = output_}); },
              {"another training writes", "set another"});
}

TEST_F(MistakesWithCheckpoints, AskedForOtherInputsAreTold) {
  training::Predictor predictor(whole_graph(), parallel::find_checkpoint(output_), devices("cpu:0"));
  expect_told([&] { predictor.predict({{"image", numbers()}}); }, {"no input 'image'", "x"});
  expect_told([&] { predictor.predict({}); }, {"needs input 'x'"});
}

}  // namespace
}  // namespace sluice
