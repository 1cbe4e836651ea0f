// Checkpoints that were made when their format was new (golden/make) are read, and written, as they were then.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/build.h"
#include "cli/trained_model.h"
#include "core/file/file.h"
#include "core/file/hash.h"
#include "data/loader.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/checkpoint/verify.h"
#include "parallel/group/thread_group.h"
#include "parallel/run/model_hash.h"
#include "tests/cli/golden_folder.h"
#include "tests/edited_state.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

/// A golden checkpoint, and what it holds: numbers that no machine computes anew.
struct Golden {
  const char* folder;
  int parts;
  bool has_averages;
  const char *weights, *states, *averages;  ///< hashes; of no tensors, that of nothing
  parallel::Verified contents;
};

constexpr int64_t kGoldenStep = 4, kStepsAnEpoch = 3;
constexpr const char* kNextBatch = "538c9b8b42137dac0d65d46ccfc53c34";  ///< hash of the tokens and targets of the step after
const Golden kGolden[] = {
    {"format-1",
     1,
     false,
     "20c2deec15d21930f3a8cecfcaafdb9f",
     "32829a897ce1249760c734f3e6dffb27",
     "99aa06d3014798d86001c324468d497f",
     {.tensors = 48, .bytes = 9263, .values = 900}},
    {"format-2",
     2,
     true,
     "20c2deec15d21930f3a8cecfcaafdb9f",
     "32829a897ce1249760c734f3e6dffb27",
     "fe3eb3b05696710d6208e8ca52d037a1",
     {.tensors = 64, .bytes = 12338, .values = 1200}},
};

fs::path folder_of(const Golden& golden) { return fs::path(sluice::testing::kGoldenFolder) / golden.folder / "step-00000004"; }

/// A training that goes on from the checkpoint, on so many devices.
class GoesOn {
 public:
  explicit GoesOn(const parallel::Checkpoint& checkpoint, int devices = 1, parallel::Group* group = nullptr)
      : settings_(settings_of(checkpoint, devices > 1 ? std::vector<std::string>{"pipeline.devices=2x cpu", "pipeline.partition=[4,3]"}
                                                      : std::vector<std::string>{"pipeline.devices=cpu:0", "pipeline.partition=auto"})),
        graph_(build_graph(settings_)),
        optimizer_(build_optimizer(settings_)),
        corpus_(load_corpus(settings_, preparation_of(checkpoint))) {
    auto options = build_trainer_options(settings_);
    options.group = std::shared_ptr<parallel::Group>(std::shared_ptr<parallel::Group>(), group);
    trainer_ = std::make_unique<parallel::Trainer>(graph_, build_plan(graph_, settings_, *optimizer_, group), *optimizer_, options);
    parallel::restore(checkpoint, *trainer_);
  }

  parallel::Trainer& trainer() { return *trainer_; }
  const layers::Graph& graph() const { return graph_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  std::string states_hash() const { return parallel::hash_of_model(nullptr, parallel::checkpoint_layout::contents_of(*trainer_).states); }
  std::string averages_hash() const { return parallel::hash_of_model(nullptr, trainer_->averages()); }
  data::Loader loader() const {
    return data::Loader(corpus_.dataset,
                        {settings_.integer("train.batch"), static_cast<uint64_t>(settings_.integer("train.seed")), /*threads=*/0});
  }

 private:
  Settings settings_;
  layers::Graph graph_;
  std::unique_ptr<Optimizer> optimizer_;
  Corpus corpus_;
  std::unique_ptr<parallel::Trainer> trainer_;
};

std::string hash_of_batch(const Batch& batch) {
  Hash hash;
  for (const char* input : {"tokens", "targets"}) {
    const Tensor values = batch.load(input, 0, batch.samples);
    hash.add(values.data(), static_cast<size_t>(values.bytes()));
  }
  return hash.text();
}

TEST(GoldenCheckpoints, AreReadAsTheyWereWritten) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.folder);
    const auto checkpoint = parallel::open_checkpoint(folder_of(golden));
    EXPECT_EQ(checkpoint.step, kGoldenStep);
    EXPECT_EQ(checkpoint.weights_hash, golden.weights);
    EXPECT_EQ(checkpoint.parts, golden.parts);
    EXPECT_EQ(checkpoint.has_averages, golden.has_averages);
    GoesOn training(checkpoint);
    EXPECT_EQ(training.trainer().steps_done(), kGoldenStep);
    EXPECT_EQ(training.trainer().weights_hash(), golden.weights);
    EXPECT_EQ(training.states_hash(), golden.states);
    EXPECT_EQ(training.averages_hash(), golden.averages);
    const auto found = parallel::verify(checkpoint, training.graph(), training.optimizer());
    EXPECT_EQ(found.tensors, golden.contents.tensors);
    EXPECT_EQ(found.bytes, golden.contents.bytes);
    EXPECT_EQ(found.values, golden.contents.values);
    EXPECT_EQ(found.not_finite, 0);
  }
}

TEST(GoldenCheckpoints, GoOnWithTheNextSamplesOnAnyNumberOfDevices) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.folder);
    const auto checkpoint = parallel::open_checkpoint(folder_of(golden));
    std::set<std::string> hashes;
    for (const int devices : {1, 2}) {
      GoesOn training(checkpoint, devices);
      auto loader = training.loader();
      ASSERT_EQ(loader.steps_per_epoch(), kStepsAnEpoch) << "it was saved within the second epoch";
      EXPECT_EQ(hash_of_batch(loader.at(training.trainer().steps_done())), kNextBatch);
      for (int step = 0; step < 3; ++step) training.trainer().step(loader.at(training.trainer().steps_done()));
      hashes.insert(training.trainer().weights_hash() + training.states_hash() + training.averages_hash());
      EXPECT_NE(training.trainer().weights_hash(), golden.weights);
    }
    EXPECT_EQ(hashes.size(), 1u) << "one answer";
  }
}

TEST(GoldenCheckpoints, AreWrittenAgainAsTheSameBytes) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.folder);
    const TemporaryFolder folder;
    parallel::run_ranks(golden.parts, [&](parallel::Group& group) {
      const auto checkpoint = parallel::open_checkpoint(folder_of(golden));
      GoesOn training(checkpoint, golden.parts, golden.parts > 1 ? &group : nullptr);
      parallel::OutputFolder output(folder.path(), training.trainer().group());
      output.save(training.trainer(), checkpoint.config, {}, 1);
    });
    const fs::path written = folder.path() / "step-00000004";
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_of(golden))) {
      const auto name = entry.path().filename();
      EXPECT_EQ(read_file(written / name), read_file(entry.path())) << name;
      ++files;
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(written), {}), static_cast<std::ptrdiff_t>(files));
  }
}

TEST(GoldenCheckpoints, OfAFutureFormatAreRefusedWithIt) {
  for (const Golden& golden : kGolden) {
    const TemporaryFolder folder;
    fs::copy(folder_of(golden), folder.path() / "step-00000004");
    const fs::path checkpoint = folder.path() / "step-00000004";
    edit_state(checkpoint, [](nlohmann::json& state) {
      state["format"] = 3;
      state["what no reader of today knows"] = {1, 2};
    });
    expect_error<DataError>([&] { parallel::open_checkpoint(checkpoint); },
                            {"state.json", "format 1 or 2, got 3", "newer version of Sluice", "read it with that one"});
  }
}

}  // namespace
}  // namespace sluice::cli
