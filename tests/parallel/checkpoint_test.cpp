// Promise 4 of docs/design.md: nothing is lost, and nothing damaged is taken for whole.
#include "parallel/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/file/file.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

std::unique_ptr<Trainer> trainer_over(int device_count, const layers::Graph& graph = skip_graph(), Precision precision = Precision::f32) {
  std::string names = "cpu:0";
  for (int i = 1; i < device_count; ++i) names += join(",cpu:", i);
  const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = 3, .precision = precision});
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}),
                                   TrainerOptions{.seed = 7, .clip = 0.5, .stochastic_rounding = precision == Precision::bf16});
}

/// A tiny training of two steps, saved after each.
class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    for (uint64_t step : {1, 2}) {
      trainer_->step(skip_batch(kSamples, step));
      newest_ = output_.save(*trainer_, "steps = 9", {{"tokenizer", "bytes"}}, 3);
    }
  }

  void overwrite(const std::string& file, std::string_view bytes) { std::ofstream(newest_ / file, std::ios::binary) << bytes; }

  /// Writes other bytes over a file of the newest checkpoint, which must be refused.
  void expect_refused(const std::string& file, std::string_view bytes, size_t place) {
    overwrite(file, bytes);
    EXPECT_THROW(open_checkpoint(newest_), DataError) << file << ", damaged at byte " << place;
  }

  void expect_truncation_refused(const std::string& file, size_t first_bytes) {
    const std::string whole = read_file(newest_ / file);
    for (size_t size = 0; size < std::min(first_bytes, whole.size()); ++size)
      expect_refused(file, std::string_view(whole).substr(0, size), size);
    overwrite(file, whole);
  }

  void expect_flipped_bits_refused(const std::string& file, int times) {
    const std::string whole = read_file(newest_ / file);
    std::mt19937 random(1);
    for (int i = 0; i < times; ++i) {
      const size_t place = header_bytes(whole) + random() % (whole.size() - header_bytes(whole));
      std::string flipped = whole;
      flipped[place] = static_cast<char>(flipped[place] ^ (1 << random() % 8));
      expect_refused(file, flipped, place);
    }
    overwrite(file, whole);
  }

  static size_t header_bytes(const std::string& safetensors) {
    uint64_t length = 0;
    std::memcpy(&length, safetensors.data(), sizeof length);
    return sizeof length + length;
  }

  TemporaryFolder folder_;
  OutputFolder output_{folder_.path() / "run"};
  std::unique_ptr<Trainer> trainer_ = trainer_over(2);
  fs::path newest_;
};

TEST_F(Checkpoints, AreRefusedWhenCutOffAnywhereInTheHeaderOrTheState) {
  expect_truncation_refused("model.safetensors", header_bytes(read_file(newest_ / "model.safetensors")));
  expect_truncation_refused("state.json", SIZE_MAX);
  EXPECT_EQ(open_checkpoint(newest_).step, 2) << "repaired, it is whole again";
}

TEST_F(Checkpoints, AreRefusedWhenAnyBitOfTheDataIsFlipped) {
  expect_flipped_bits_refused("model.safetensors", 1000);
  expect_flipped_bits_refused("optimizer.safetensors", 1000);
  EXPECT_EQ(open_checkpoint(newest_).step, 2) << "repaired, it is whole again";
}

TEST_F(Checkpoints, AreRefusedWhenAnyBitOfTheStateIsFlipped) {
  const std::string whole = read_file(newest_ / "state.json");
  for (size_t place = 0; place < whole.size(); ++place) {
    std::string flipped = whole;
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << place % 8));
    expect_refused("state.json", flipped, place);
  }
}

TEST_F(Checkpoints, AreRefusedWithTheFileThatIsMissing) {
  fs::remove(newest_ / "tokenizer");
  expect_error<DataError>([&] { open_checkpoint(newest_); }, {"step-00000002/tokenizer", "no such file"});
}

TEST_F(Checkpoints, GoOnBitForBitOnAnyNumberOfDevices) {
  const Checkpoint checkpoint = open_checkpoint(newest_);
  EXPECT_EQ(checkpoint.config, "steps = 9");
  const StepResult next = trainer_->step(skip_batch(kSamples, 3));
  for (int device_count : {1, 2, 3, 4}) {
    const auto resumed = trainer_over(device_count);
    restore(checkpoint, *resumed);
    EXPECT_EQ(resumed->weights_hash(), checkpoint.weights_hash) << device_count << " devices";
    EXPECT_EQ(resumed->steps_done(), 2);
    const StepResult same = resumed->step(skip_batch(kSamples, 3));
    EXPECT_EQ(same.loss, next.loss) << device_count << " devices";
    EXPECT_EQ(same.gradient_norm, next.gradient_norm) << device_count << " devices";
    EXPECT_EQ(resumed->weights_hash(), trainer_->weights_hash()) << device_count << " devices";
  }
}

TEST_F(Checkpoints, InBf16KeepTheMastersAndGoOnBitForBitWithStochasticRounding) {
  const auto options = sluice::testing::tiny_transformer_options();
  const auto graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return sluice::testing::token_batch(options, kSamples, seed); };
  const auto trainer = trainer_over(2, graph, Precision::bf16);
  for (uint64_t step : {1, 2}) trainer->step(batch(step));
  OutputFolder output(folder_.path() / "bf16");
  const Checkpoint checkpoint = open_checkpoint(output.save(*trainer, "", {}, 3));
  for (const auto& [name, value] : load_parameters(checkpoint, graph, Precision::f32)) EXPECT_EQ(value.dtype(), DType::f32) << name;
  const double evaluation = trainer->evaluate(batch(9)).loss_sum, next = trainer->step(batch(3)).loss;
  for (int device_count : {1, 2, 3, 4}) {
    const auto resumed = trainer_over(device_count, graph, Precision::bf16);
    restore(checkpoint, *resumed);
    EXPECT_EQ(resumed->evaluate(batch(9)).loss_sum, evaluation) << device_count << " devices";
    EXPECT_EQ(resumed->step(batch(3)).loss, next) << device_count << " devices";
    EXPECT_EQ(resumed->weights_hash(), trainer->weights_hash()) << device_count << " devices";
  }
}

TEST_F(Checkpoints, OfAnotherModelAreRefusedWithBothShapes) {
  layers::Graph wider;
  const auto image = wider.input("image", {6}), label = wider.input("label", {}, DType::i32);
  const auto stem = wider.add("stem", layers::Linear(6, 9), image);
  wider.loss(wider.add("loss", layers::CrossEntropy(), {stem, label}));
  const auto other = trainer_over(1, wider);
  expect_error<DataError>([&] { restore(open_checkpoint(newest_), *other); }, {"'stem.bias'", "[8]", "[9]"});
}

TEST_F(Checkpoints, FallBackToTheOlderOneWhenTheNewestIsDamaged) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  EXPECT_EQ(find_latest(output_.path(), warn)->step, 2);
  EXPECT_TRUE(warnings.empty());

  fs::resize_file(newest_ / "model.safetensors", 100);
  EXPECT_EQ(find_latest(output_.path(), warn)->step, 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("step-00000002/model.safetensors"), std::string::npos) << warnings[0];
  EXPECT_TRUE(fs::exists(newest_)) << "what is damaged is left for the user to look at";

  fs::resize_file(output_.path_of("step-00000001/state.json"), 0);
  EXPECT_FALSE(find_latest(output_.path(), warn).has_value());
}

TEST_F(Checkpoints, AreKeptUpToTheNumberAskedFor) {
  trainer_->step(skip_batch(kSamples, 3));
  output_.save(*trainer_, "", {}, 2);
  EXPECT_FALSE(fs::exists(output_.path_of("step-00000001")));
  EXPECT_TRUE(fs::exists(output_.path_of("step-00000002")));
  EXPECT_EQ(read_file(output_.path_of("latest")), "step-00000003\n");
}

TEST_F(Checkpoints, AfterTheStepOfAResumeAreSetAside) {
  const fs::path aside = output_.set_aside_after(1);
  EXPECT_EQ(open_checkpoint(aside / "step-00000002").step, 2);
  EXPECT_FALSE(fs::exists(newest_));
  EXPECT_TRUE(output_.set_aside_after(1).empty());
}

TEST_F(Checkpoints, AreWrittenByOneTrainingAtATime) {
  expect_error<ResourceError>([&] { OutputFolder second(output_.path()); }, {"another training"});
}

TEST(OutputFolder, RemovesWhatAKilledTrainingLeft) {
  const TemporaryFolder folder;
  folder.write("step-00000003.tmp-123/model.safetensors", "half");
  const OutputFolder output(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000003.tmp-123"));
}

}  // namespace
}  // namespace sluice::parallel
