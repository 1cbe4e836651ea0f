// Frozen parameters: they stay as they are, cost no gradient and no states, and change neither the others' gradients nor the one answer.
#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "core/ops/noise.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/checkpoint.h"
#include "parallel/plan/model_topology.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::expect_one_answer;
using sluice::testing::expect_states_as_searches_count_them;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_classifier;
using sluice::testing::tiny_language_model;
using sluice::testing::TinyModel;

constexpr int64_t kSamples = 8;

TinyModel tiny_dag() {
  return {skip_graph(), [](uint64_t seed) { return skip_batch(kSamples, seed); }};
}

TinyModel frozen(TinyModel model, const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) model.graph.freeze(pattern);
  return model;
}

/// At the beginning, at the end and in the middle of a model; of all that a node has and of a part; where weights are tied.
std::vector<TinyModel> fine_tuned_models() {
  return {frozen(tiny_dag(), {"stem.*", "a.*"}),
          frozen(tiny_dag(), {"logits.*", "e.weight"}),
          frozen(tiny_classifier(kSamples), {"norm.*", "stem.*"}),
          frozen(tiny_classifier(kSamples), {"block.linear.*"}),
          frozen(tiny_language_model(kSamples), {"*embedding*"}),
          frozen(tiny_language_model(kSamples), {"block1.*", "*bias"})};
}

std::unique_ptr<Trainer> trainer_of(const TinyModel& model, const std::string& device_names, const Optimizer& optimizer,
                                    Precision precision = Precision::f32, double clip = 0) {
  const PlanOptions options{.batch = kSamples, .micro_batches = 4, .partition = PartitionRule::uniform, .precision = precision};
  return std::make_unique<Trainer>(model.graph, plan(model.graph, devices(device_names), options), optimizer,
                                   TrainerOptions{.seed = 3, .clip = clip, .stochastic_rounding = precision == Precision::bf16});
}

using Numbers = std::map<std::string, std::vector<double>>;
Numbers numbers_of(const std::map<std::string, Tensor>& tensors) {
  Numbers all;
  for (const auto& [name, tensor] : tensors) all[name] = tensor.to_vector();
  return all;
}

TEST(Freezing, LeavesOneAnswerAndExactBytesForEveryPipeline) {
  for (const TinyModel& model : fine_tuned_models()) expect_one_answer(model.graph, model.batch);
}

TEST(Freezing, KeepsWhatIsFrozenAndGivesTheOthersTheGradientsThatTheyHaveWithout) {
  const SGD plain({.lr = 0.1, .weight_decay = 0.1});
  const std::vector<TinyModel> whole{tiny_dag(),
                                     tiny_dag(),
                                     tiny_classifier(kSamples),
                                     tiny_classifier(kSamples),
                                     tiny_language_model(kSamples),
                                     tiny_language_model(kSamples)};
  const auto models = fine_tuned_models();
  for (size_t i = 0; i < models.size(); ++i) {
    const auto tuned = trainer_of(models[i], "cpu:0,cpu:1", plain), all = trainer_of(whole[i], "cpu:0", plain);
    const Numbers start = numbers_of(tuned->model());
    tuned->step(models[i].batch(1));
    all->step(models[i].batch(1));
    const Numbers model = numbers_of(tuned->model()), expected = numbers_of(all->model());
    for (const auto& parameter : models[i].graph.parameters()) {
      const auto& name = parameter.name;
      EXPECT_EQ(model.at(name), parameter.frozen ? start.at(name) : expected.at(name)) << i << ", " << name;
      EXPECT_NE(expected.at(name), start.at(name)) << i << ", " << name;
    }
  }
}

TEST(Freezing, CountsNoGradientsAndNoStates) {
  const TinyModel whole = tiny_language_model(kSamples), tuned = frozen(whole, {"block1.*"});
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = 0.9;
  const auto counted = [&](const TinyModel& model) {
    return predict(model.graph, plan(model.graph, devices("cpu:0"), {.batch = kSamples, .precision = Precision::bf16}), optimizer, kSamples,
                   {})
        .devices.at(0);
  };
  int64_t bytes = 0;
  for (const auto& parameter : tuned.graph.parameters())
    if (parameter.frozen) bytes += Device::charged_size(4 * parameter.spec.shape.elements());
  ASSERT_GT(bytes, 0);
  const auto with = counted(whole), without = counted(tuned);
  EXPECT_EQ(without.parameter_bytes, with.parameter_bytes) << "masters and working copies";
  EXPECT_EQ(without.gradient_bytes, with.gradient_bytes - bytes);
  EXPECT_EQ(without.optimizer_bytes, with.optimizer_bytes - 3 * bytes) << "m, v and the average";
  EXPECT_LT(predict(tuned.graph, plan(tuned.graph, devices("cpu:0"), {.batch = kSamples}), optimizer, kSamples, {}).flops,
            predict(whole.graph, plan(whole.graph, devices("cpu:0"), {.batch = kSamples}), optimizer, kSamples, {}).flops);
}

/// Shifts its input by a buffer.
class Shift : public layers::Module {
 public:
  std::vector<layers::ParameterSpec> parameters() const override {
    return {{.name = "by", .shape = {3}, .initializer = layers::Initializer::normal(1), .decay = false, .trained = false}};
  }
  Var forward(const layers::Call& call) const override { return add(call.inputs[0], parameter(call, "by")); }
};

TEST(Freezing, IsWhatABufferOfAModuleIs) {
  layers::Graph graph;
  const auto x = graph.input("x", {3}), target = graph.input("target", {3});
  const auto shifted = graph.add("shift", Shift(), graph.add("first", layers::Linear(3, 3), x));
  const auto y = graph.add("last", layers::Linear(3, 3), shifted);
  graph.output(y);
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {y, target}));
  const TinyModel model{std::move(graph), [](uint64_t seed) {
                          return batch_of({{"x", randn({kSamples, 3}, seed)}, {"target", randn({kSamples, 3}, seed + 1)}});
                        }};
  expect_one_answer(model.graph, model.batch);
  const auto trainer = trainer_of(model, "cpu:0,cpu:1", AdamW({.lr = 1e-2}));
  const auto before = trainer->model().at("shift.by").to_vector(), others = trainer->model().at("last.weight").to_vector();
  trainer->step(model.batch(1));
  EXPECT_EQ(trainer->model().at("shift.by").to_vector(), before);
  EXPECT_NE(trainer->model().at("last.weight").to_vector(), others);
}

TEST(Freezing, SendsNoGradientsToWhereNothingIsTrained) {
  const TinyModel whole = tiny_language_model(kSamples), tuned = frozen(whole, {"*embedding*", "block0.*", "block1.attention.*"});
  const AdamW optimizer({.lr = 1e-2});
  const auto last_sends = [&](const TinyModel& model) {
    const auto trainer = trainer_of(model, "cpu:0,cpu:1", optimizer);
    trainer->step(model.batch(1));
    return predict(model.graph, trainer->plan(), optimizer, kSamples, {}).devices[1].sent_bytes;
  };
  const int64_t gradient = kSamples / 4 * sluice::testing::tiny_transformer_options().context * 16 * 4;  // of a micro-batch, 16 wide
  EXPECT_GE(last_sends(whole), 4 * gradient);
  EXPECT_LT(last_sends(tuned), gradient) << "the sums of the norm alone";
}

TEST(Freezing, IsCountedBySearchesAsItIsByRuns) {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = 0.9;
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const TinyModel& model : fine_tuned_models())
      if (topology_of(model.graph).tied.empty())  // one gradient a use, of which runs count one with the activations
        expect_states_as_searches_count_them(model.graph, kSamples, precision, optimizer);
}

/// The weights, the averages and an evaluation after three steps, in bf16 with random rounding.
TEST(Freezing, KeepsMovingAveragesOfTheOthersAndOneAnswerInBf16) {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = 0.9;
  for (const TinyModel& model : fine_tuned_models()) {
    std::vector<std::tuple<std::string, double, Numbers>> outcomes;
    for (const char* names : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"}) {
      const auto trainer = trainer_of(model, names, optimizer, Precision::bf16, 0.5);
      for (uint64_t step : {1, 2, 3}) trainer->step(model.batch(step));
      outcomes.emplace_back(trainer->weights_hash(), trainer->evaluate(model.batch(77)).loss_sum, numbers_of(trainer->averages()));
      EXPECT_EQ(outcomes.back(), outcomes.front()) << names;
      const Numbers weights = numbers_of(trainer->model()), averages = numbers_of(trainer->averages());
      for (const auto& parameter : model.graph.parameters())
        EXPECT_EQ(averages.at(parameter.name) == weights.at(parameter.name), parameter.frozen) << parameter.name;
    }
  }
}

class FrozenCheckpoints : public ::testing::Test {
 protected:
  Checkpoint save(Trainer& trainer) { return open_checkpoint(output_.save(trainer, "", {}, 9)); }
  static AdamW optimizer() {
    AdamW made({.lr = 1e-2});
    made.ema = 0.9;
    return made;
  }

  TemporaryFolder folder_;
  OutputFolder output_{folder_.path() / "run"};
};

TEST_F(FrozenCheckpoints, GoOnBitForBitOnAnyNumberOfDevices) {
  const TinyModel model = frozen(tiny_language_model(kSamples), {"*embedding*", "block0.*"});
  const auto trainer = trainer_of(model, "cpu:0,cpu:1", optimizer(), Precision::bf16);
  for (uint64_t step : {1, 2}) trainer->step(model.batch(step));
  const Checkpoint checkpoint = save(*trainer);
  trainer->step(model.batch(3));
  for (const char* names : {"cpu:0", "cpu:0,cpu:1,cpu:2"}) {
    const auto resumed = trainer_of(model, names, optimizer(), Precision::bf16);
    restore(checkpoint, *resumed);
    resumed->step(model.batch(3));
    EXPECT_EQ(resumed->weights_hash(), trainer->weights_hash()) << names;
    EXPECT_EQ(numbers_of(resumed->averages()), numbers_of(trainer->averages())) << names;
  }
}

TEST_F(FrozenCheckpoints, OfTheWholeModelGoOnWithAPartOfItFrozenAtItsWeights) {
  const TinyModel whole = tiny_language_model(kSamples), tuned = frozen(whole, {"block0.*"});
  const auto before = trainer_of(whole, "cpu:0", optimizer());
  for (uint64_t step : {1, 2}) before->step(whole.batch(step));
  const auto after = trainer_of(tuned, "cpu:0,cpu:1", optimizer());
  restore(save(*before), *after);
  const Numbers weights = numbers_of(before->model());
  EXPECT_EQ(after->weights_hash(), before->weights_hash());
  after->step(whole.batch(3));
  const Numbers model = numbers_of(after->model()), averages = numbers_of(after->averages());
  for (const auto& parameter : tuned.graph.parameters()) {
    EXPECT_EQ(model.at(parameter.name) == weights.at(parameter.name), parameter.frozen) << parameter.name;
    if (parameter.frozen) {
      EXPECT_EQ(averages.at(parameter.name), weights.at(parameter.name)) << parameter.name;
    }
  }
}

TEST_F(FrozenCheckpoints, LackTheStatesThatATrainingOfTheWholeModelNeeds) {
  const TinyModel whole = tiny_language_model(kSamples), tuned = frozen(whole, {"block0.*"});
  const auto before = trainer_of(tuned, "cpu:0", optimizer()), after = trainer_of(whole, "cpu:0", optimizer());
  before->step(whole.batch(1));
  const Checkpoint checkpoint = save(*before);
  expect_error<DataError>([&] { restore(checkpoint, *after); }, {"block0.", "/m", "frozen", "--init"});
}

TEST(Freezing, NamesAPatternThatSaysNothingAndATrainingOfNothing) {
  TinyModel model = tiny_language_model(kSamples);
  expect_error<UsageError>([&] { model.graph.freeze("blocks0.*"); }, {"freeze", "'blocks0.*'", "NODE.*"});
  model.graph.freeze("*");
  expect_error<UsageError>([&] { trainer_of(model, "cpu:0", AdamW({.lr = 1e-2})); }, {"frozen", "nothing to train", "freeze fewer"});
}

}  // namespace
}  // namespace sluice::parallel
