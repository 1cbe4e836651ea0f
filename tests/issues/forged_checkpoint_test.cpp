// A checkpoint whose checksums are right may still say what no training wrote: a step below zero, weights that are not finite.
#include <gtest/gtest.h>

#include <limits>

#include "cli/trained_model.h"
#include "core/file/safetensors.h"
#include "parallel/checkpoint/initialize.h"
#include "parallel/checkpoint/layout.h"
#include "tests/edited_state.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"
#include "training/evaluation_history.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ForgedCheckpoint : public ::testing::Test {
 protected:
  ForgedCheckpoint() {
    trainer_.step(testing::skip_batch(6, 1));
    checkpoint_ = output_.save(trainer_, "", {}, 3);
  }

  /// Puts a value into the last element of the last tensor of a model file.
  void poison(const char* name, float value) {
    std::map<std::string, Tensor> tensors;
    const SafetensorsFile file(checkpoint_ / name);
    for (const auto& [tensor, entry] : file.tensors()) tensors[tensor] = file.read(tensor);
    Tensor& last = tensors.rbegin()->second;
    last.data<float>()[last.shape().elements() - 1] = value;
    const FileSummary written = write_safetensors(checkpoint_ / name, tensors);
    edit_state(checkpoint_, [&](json& state) { state["files"][name] = {{"bytes", written.bytes}, {"xxh3_128", written.hash}}; });
  }

  TemporaryFolder folder_;
  layers::Graph graph_ = testing::skip_graph();
  Trainer trainer_{graph_, plan(graph_, devices("cpu:0"), {.batch = 6}), SGD({})};
  OutputFolder output_{folder_.path() / "run"};
  fs::path checkpoint_;
};

TEST_F(ForgedCheckpoint, ThatDoesNotNameEveryFileThatIsReadIsRefused) {
  for (const char* name : {checkpoint_layout::kModelFile, checkpoint_layout::kOptimizerFile}) {
    json removed;
    edit_state(checkpoint_, [&](json& state) { removed = state["files"][name], state["files"].erase(name); });
    expect_error<DataError>([&] { open_checkpoint(checkpoint_, Wanted::weights); }, {"state.json", name});
    edit_state(checkpoint_, [&](json& state) { state["files"][name] = removed; });
  }
  edit_state(checkpoint_, [&](json& state) { state["files"]["../run/lock"] = {{"bytes", 0}, {"xxh3_128", sluice::hash_of("")}}; });
  expect_error<DataError>([&] { open_checkpoint(checkpoint_); }, {"state.json", "../run/lock"});
}

TEST_F(ForgedCheckpoint, WithAStepThatNoTrainingReachesIsRefused) {
  for (const json& step : {json(-1), json(-9000000000000000000), json(kMostSteps + 1), json(18446744073709551615u), json(1e300), json("1"),
                           json(1.5), json(nullptr)}) {
    edit_state(checkpoint_, [&](json& state) { state["step"] = step; });
    expect_error<DataError>([&] { open_checkpoint(checkpoint_); }, {"state.json", "step", step.dump()});
  }
  edit_state(checkpoint_, [](json& state) { state["step"] = kMostSteps; });
  EXPECT_EQ(open_checkpoint(checkpoint_).step, kMostSteps);
}

/// It was an error of the command line, which ended --verify of a whole folder at such a checkpoint.
TEST_F(ForgedCheckpoint, WithAConfigOfAnotherVersionIsBadData) {
  const auto settings_with = [&](const char* config, const std::vector<std::string>& assignments) {
    edit_state(checkpoint_, [&](json& state) { state["config"] = config; });
    return cli::settings_of(open_checkpoint(checkpoint_), assignments);
  };
  for (const char* config : {"[model]\nunheard_of = 1\n", "[train]\nsteps = \"many\"\n", "no TOML"})
    expect_error<DataError>([&] { settings_with(config, {}); }, {"state.json (config):", "the version of Sluice that wrote it"});
  expect_error<UsageError>([&] { settings_with("", {"model.unheard_of=1"}); }, {"model.unheard_of"});
}

TEST(ForgedEvaluations, OfStepsThatNoTrainingReachesAreRefused) {
  for (const char* step : {"-1", "1e+300", "4294967296", "18446744073709551615", "1.5", "\"1\"", "null"}) {
    training::EvaluationHistory history("loss");
    const std::string text = join(R"([{"loss": 1.5, "metrics": {}, "step": )", step, "}]");
    expect_error<DataError>([&] { history.read(text, "evaluations.json"); }, {"evaluations.json", "step", step, "use another checkpoint"});
    EXPECT_TRUE(history.entries().empty());
  }
}

TEST_F(ForgedCheckpoint, WithWeightsThatAreNotFiniteIsRefusedByWhoeverReadsThem) {
  for (const float value :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    poison(checkpoint_layout::kModelFile, value);
    const Checkpoint checkpoint = open_checkpoint(checkpoint_);
    const auto words = {std::string("model.safetensors"), std::string("finite"), std::string("diverged")};
    expect_error<DataError>([&] { restore(checkpoint, trainer_); }, words);
    expect_error<DataError>([&] { restore_weights(checkpoint, false, trainer_); }, words);
    expect_error<DataError>([&] { load_parameters(checkpoint, graph_, Precision::f32); }, words);
    expect_error<DataError>([&] { initialize(checkpoint, trainer_); }, words);
  }
}

TEST_F(ForgedCheckpoint, ThatNestsTenThousandsOfObjectsIsRefusedBeforeItsChecksumIsRead) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  write_file(checkpoint_ / checkpoint_layout::kStateFile, deep + "1" + std::string(100'000, '}'));
  expect_error<DataError>([&] { open_checkpoint(checkpoint_); }, {"state.json", "nests"});
}

}  // namespace
}  // namespace sluice::parallel
