// Promise 1 over ranks: the same bits, bytes and checkpoints whoever has which stage. Ranks are threads here.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/checkpoint.h"
#include "parallel/checkpoint/initialize.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/agreement.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;
using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

struct Layout {
  int ranks = 1, devices = 1;
  NamedSchedule schedule = NamedSchedule::one_f_one_b;
  int micro_batches = 3;
  Precision precision = Precision::f32;
  double ema = 0;
  bool allow_other_hardware = false;
};

std::string describe(const Layout& layout) {
  return join(layout.ranks, " ranks, ", layout.devices, " devices, ", name_of(layout.schedule), ", ", layout.micro_batches,
              " micro-batches, ", name_of(layout.precision));
}

AdamW optimizer_of(const Layout& layout) {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = layout.ema;
  return optimizer;
}

/// The trainer of one rank; the group lives longer.
std::unique_ptr<Trainer> trainer_of(Group& group, const layers::Graph& graph, const Layout& layout, int64_t samples) {
  const auto all = devices(join(layout.devices, "x cpu"));
  const Plan chosen = planned_by_root(group.size() > 1 ? &group : nullptr, all, [&] {
    const int virtual_stages = layout.schedule == NamedSchedule::interleaved ? 2 : 1;
    return plan(graph, all,
                {.batch = samples,
                 .micro_batches = layout.micro_batches,
                 .schedule = {layout.schedule, virtual_stages},
                 .precision = layout.precision});
  });
  TrainerOptions options{.seed = 3, .clip = 0.5, .timeout_seconds = 60, .stochastic_rounding = layout.precision == Precision::bf16};
  options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
  options.allow_other_hardware = layout.allow_other_hardware;
  return std::make_unique<Trainer>(graph, chosen, optimizer_of(layout), options);
}

struct Outcome {
  std::string hash;
  std::vector<double> losses;
  std::vector<int64_t> peaks;  ///< of the last step
  bool operator==(const Outcome&) const = default;
};

template <class MakeBatch>
Outcome steps_of(Trainer& trainer, const MakeBatch& batch) {
  Outcome outcome;
  for (uint64_t step = 0; step < 3; ++step) {
    const StepResult result = trainer.step(batch(step));
    outcome.losses.insert(outcome.losses.end(), {result.loss, result.gradient_norm});
    outcome.peaks = result.peak_bytes;
    EXPECT_EQ(result.bytes_between_ranks, result.planned_bytes_between_ranks);
    EXPECT_EQ(result.bytes_between_ranks > 0, trainer.group() != nullptr);
  }
  const auto evaluation = trainer.evaluate(batch(77));
  outcome.losses.push_back(evaluation.loss_sum / evaluation.weight);
  trainer.step(batch(4));
  outcome.hash = trainer.weights_hash();
  return outcome;
}

/// What every rank gives, which must be one thing.
template <class MakeBatch>
Outcome train(const layers::Graph& graph, const Layout& layout, int64_t samples, const MakeBatch& batch) {
  std::mutex mutex;
  std::vector<Outcome> outcomes;
  run_ranks(layout.ranks, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, layout, samples);
    Outcome outcome = steps_of(*trainer, batch);
    std::lock_guard lock(mutex);
    outcomes.push_back(std::move(outcome));
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]) << "ranks differ: " << describe(layout);
  return outcomes[0];
}

/// Each layout of several ranks against one rank with the same devices, bytes included, and all against one device.
template <class MakeBatch>
void expect_one_answer(const layers::Graph& graph, int64_t samples, Layout base, const MakeBatch& batch) {
  base.ranks = base.devices = 1;
  const Outcome first = train(graph, base, samples, batch);
  for (const int devices : {2, 4}) {
    Layout layout = base;
    layout.devices = devices;
    const Outcome together = train(graph, layout, samples, batch);
    EXPECT_EQ(together.hash, first.hash) << describe(layout);
    EXPECT_EQ(together.losses, first.losses) << describe(layout);
    for (int ranks = 2; ranks <= devices; ranks *= 2) {
      layout.ranks = ranks;
      EXPECT_EQ(train(graph, layout, samples, batch), together) << describe(layout);
    }
  }
}

TEST(Ranks, GiveOneAnswerForATransformerWithTiedEmbeddings) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  for (const auto schedule : kNamedSchedules)
    expect_one_answer(graph, 8, {.schedule = schedule}, [&](uint64_t seed) { return token_batch(options, 8, seed); });
}

TEST(Ranks, GiveOneAnswerInBf16WithMovingAverages) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  for (const auto precision : {Precision::f32, Precision::bf16})
    expect_one_answer(graph, 8, {.precision = precision, .ema = 0.9}, [&](uint64_t seed) { return token_batch(options, 8, seed); });
}

TEST(Ranks, GiveOneAnswerForRunningStatisticsAndUnevenMicroBatches) {
  for (const int micro_batches : {1, 3, 7})
    expect_one_answer(image_graph(), 10, {.micro_batches = micro_batches}, [](uint64_t seed) { return image_batch(10, seed); });
}

TEST(Ranks, GiveOneAnswerForADagWithSkips) {
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::zb_v})
    expect_one_answer(skip_graph(), 10, {.schedule = schedule}, [](uint64_t seed) { return skip_batch(10, seed); });
}

/// All that a checkpoint keeps, by name. Of several ranks each has its own part of it.
using Values = std::map<std::string, std::vector<double>>;

Values values_of(const Trainer& trainer) {
  Values values;
  for (const auto& [name, tensor] : trainer.model()) values[name] = tensor.to_vector();
  for (const auto& [name, tensor] : trainer.averages()) values[name + "/average"] = tensor.to_vector();
  for (const auto& parameter : trainer.parameters())
    for (size_t i = 0; i < parameter.optimizer_states.size(); ++i)
      values[join(parameter.name, "/", i)] = parameter.optimizer_states[i].to_vector();
  return values;
}

/// A training at one of its steps.
struct Moment {
  int64_t step;
  std::string hash;
  Values values;
};

Moment moment_of(const Trainer& trainer) { return {trainer.steps_done(), trainer.weights_hash(), values_of(trainer)}; }

constexpr int64_t kSavedAfter = 2, kEndsAfter = 4, kReshardingSamples = 10;

/// The place in the data is the step: what a training reads next follows from nothing else.
void train_until(Trainer& trainer, int64_t step, const sluice::testing::TinyModel& model) {
  while (trainer.steps_done() < step) trainer.step(model.batch(static_cast<uint64_t>(trainer.steps_done())));
}

/// The trainers of all ranks together hold what one device alone holds, bit for bit.
class Together {
 public:
  explicit Together(const Moment& expected) : expected_(expected) {}
  void add(const Trainer& trainer) {
    const Moment mine = moment_of(trainer);
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(mine.step, expected_.step);
    EXPECT_EQ(mine.hash, expected_.hash);
    for (const auto& [name, value] : mine.values) {
      EXPECT_EQ(value, expected_.values.at(name)) << name;
      EXPECT_TRUE(names_.insert(name).second) << name << " is on two ranks";
    }
  }
  ~Together() { EXPECT_EQ(names_.size(), expected_.values.size()) << "names that no rank has"; }

 private:
  const Moment& expected_;
  std::mutex mutex_;
  std::set<std::string> names_;
};

/// Saves by each layout and goes on by each, against one device that never stopped.
void expect_every_resharding(const sluice::testing::TinyModel& model, double ema) {
  constexpr std::pair<int, int> kLayouts[] = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 2}, {4, 4}, {8, 8}, {2, 8}};
  Moment saved, ended;
  run_ranks(1, [&](Group& group) {
    const auto trainer = trainer_of(group, model.graph, {.ema = ema}, kReshardingSamples);
    train_until(*trainer, kSavedAfter, model);
    saved = moment_of(*trainer);
    train_until(*trainer, kEndsAfter, model);
    ended = moment_of(*trainer);
  });
  EXPECT_NE(saved.hash, ended.hash);
  const auto over = [&](std::pair<int, int> layout, const std::function<void(Trainer&)>& use) {
    run_ranks(layout.first, [&](Group& group) {
      const auto trainer =
          trainer_of(group, model.graph, {.ranks = layout.first, .devices = layout.second, .ema = ema}, kReshardingSamples);
      use(*trainer);
    });
  };
  for (const auto& from : kLayouts) {
    const TemporaryFolder folder;
    over(from, [&](Trainer& trainer) {
      OutputFolder output(folder.path(), trainer.group());
      output.keep_room(trainer, 0);
      train_until(trainer, kSavedAfter, model);
      output.save(trainer, "steps = 9", {{"tokenizer", "bytes"}}, 3);
    });
    for (const auto& to : kLayouts) {
      SCOPED_TRACE(join("from ", from.first, " ranks with ", from.second, " stages to ", to.first, " with ", to.second));
      Together at_start(saved), at_end(ended);
      over(to, [&](Trainer& trainer) {
        restore(*find_latest(folder.path(), [](const std::string& text) { ADD_FAILURE() << text; }), trainer);
        at_start.add(trainer);
        train_until(trainer, kEndsAfter, model);
        at_end.add(trainer);
      });
    }
  }
}

TEST(Ranks, GoOnFromOneTwoFourOrEightStagesWithAnyOtherNumberOfThem) {
  expect_every_resharding(sluice::testing::tiny_classifier(kReshardingSamples), 0.9);
}

TEST(Ranks, GoOnWithTiedWeightsOverAnyOtherNumberOfStages) {
  expect_every_resharding(sluice::testing::tiny_language_model(kReshardingSamples), 0);
}

/// Two parts of each kind of tensor.
fs::path save_over_two_ranks(const layers::Graph& graph, const fs::path& folder, std::string& hash) {
  run_ranks(2, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.ranks = 2, .devices = 2}, 10);
    OutputFolder output(folder, trainer->group());
    trainer->step(image_batch(10, 1));
    output.save(*trainer, "steps = 9", {}, 1);
    const std::string whole = trainer->weights_hash();
    if (group.is_root()) hash = whole;
  });
  return folder / "step-00000001";
}

TEST(Ranks, SavePartsThatOneProcessEvaluatesAndBeginsWith) {
  const layers::Graph graph = image_graph();
  const TemporaryFolder folder;
  std::string hash;
  const fs::path saved = save_over_two_ranks(graph, folder.path(), hash);
  for (const char* kind : {"model", "optimizer"})
    for (const char* part : {"-00001-of-00002.safetensors", "-00002-of-00002.safetensors"})
      EXPECT_TRUE(fs::exists(saved / (std::string(kind) + part))) << kind << part;
  EXPECT_FALSE(fs::exists(saved / "model.safetensors"));

  run_ranks(1, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.devices = 2}, 10);
    EXPECT_EQ(initialize(open_checkpoint(saved), *trainer).loaded.size(), trainer->model().size());
    EXPECT_EQ(trainer->weights_hash(), hash);
    const auto loaded = load_parameters(open_checkpoint(saved, Wanted::weights), graph, Precision::f32);
    for (const auto& [name, tensor] : trainer->model()) EXPECT_EQ(loaded.at(name).to_vector(), tensor.to_vector()) << name;
  });
}

TEST(Ranks, RefuseACheckpointWithoutOneOfItsParts) {
  const layers::Graph graph = image_graph();
  const TemporaryFolder folder;
  std::string hash;
  const fs::path saved = save_over_two_ranks(graph, folder.path(), hash);
  fs::remove(saved / "optimizer-00002-of-00002.safetensors");
  EXPECT_EQ(open_checkpoint(saved, Wanted::weights).parts, 2) << "evaluation does not read it";
  expect_error<DataError>([&] { open_checkpoint(saved); }, {"optimizer-00002-of-00002.safetensors"});
  fs::remove(saved / "model-00001-of-00002.safetensors");
  expect_error<DataError>([&] { open_checkpoint(saved, Wanted::weights); }, {"model-00001-of-00002.safetensors"});
}

TEST(Ranks, KeepRoomOnTheDiskEach) {
  const layers::Graph graph = skip_graph();
  const TemporaryFolder folder;
  run_ranks(4, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.ranks = 4, .devices = 4}, 6);
    OutputFolder output(folder.path(), &group);
    output.keep_room(*trainer, 0);
    if (!group.is_root()) return together(&group, [] {});
    std::set<fs::path> kept;  // "/folder/reserve.tmp-0 (deleted)"
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      const fs::path file = fs::read_symlink(entry, closed);
      if (file.string().starts_with((folder.path() / "reserve").string())) kept.insert(file);
    }
    together(&group, [] {});
    EXPECT_EQ(kept.size(), 4u);
  });
}

TEST(Ranks, ThrowAnErrorOfTheSystemAsOneOfResources) {
  const auto fails = [](Group& group) {
    together(&group, [&] {
      if (group.rank() == 1) throw fs::filesystem_error("cannot remove", "file", std::make_error_code(std::errc::no_space_on_device));
    });
  };
  expect_error<ResourceError>([&] { run_ranks(2, fails); }, {"rank 1", "cannot remove"});
}

TEST(Ranks, HoldProgramsAgainstBudgetsThatChange) {
  const layers::Graph graph = skip_graph();
  run_ranks(2, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.ranks = 2, .devices = 2}, 6);
    const int64_t peak = trainer->step(skip_batch(6, 1)).peak_bytes[1];
    trainer->plan().devices[1]->set_budget_bytes(peak - 1);
    expect_error<OutOfMemory>([&] { trainer->step(skip_batch(6, 2)); }, {"cpu:1", "lacks 1"});
    trainer->plan().devices[1]->set_budget_bytes(peak);
    EXPECT_EQ(trainer->step(skip_batch(6, 2)).peak_bytes[1], peak);
  });
}

/// By transfer, when it was sent and received; both in the root's time.
TEST(Ranks, GatherOneTraceInWhichNothingIsReceivedBeforeItIsSent) {
  const layers::Graph graph = skip_graph();
  run_ranks(4, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.ranks = 4, .devices = 4}, 6);
    const StepResult result = trainer->step(skip_batch(6, 1));
    if (!group.is_root()) return;
    constexpr double kClocksDiffer = 1e-3;
    std::map<std::pair<Transfer, int>, double> sent;
    std::set<int> devices;
    for (const TraceEvent& event : trainer->trace().events) {
      devices.insert(event.device);
      EXPECT_LE(event.start, event.end);
      EXPECT_LE(event.end, result.seconds);
      if (event.action.kind == ActionKind::send) sent[{event.action.transfer, event.action.micro_batch}] = event.start;
    }
    EXPECT_EQ(devices.size(), 4u);
    for (const TraceEvent& event : trainer->trace().events) {
      if (event.action.kind != ActionKind::recv) continue;
      EXPECT_LE(sent.at({event.action.transfer, event.action.micro_batch}), event.end + kClocksDiffer);
    }
    EXPECT_EQ(result.bubble, trainer->trace().bubble());
  });
}

TEST(Ranks, RefuseAnotherModelConfigOrNumberOfDevices) {
  const auto start = [](const std::function<layers::Graph(int)>& graph_of, const std::function<std::string(int)>& config) {
    run_ranks(2, [&](Group& group) {
      const layers::Graph graph = graph_of(group.rank());
      const Plan chosen = plan(graph, devices("2x cpu"), {.batch = 4, .micro_batches = 1, .partition = PartitionRule::uniform});
      TrainerOptions options;
      options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
      options.config = config(group.rank());
      const Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), options);
    });
  };
  const auto same = [](int) { return skip_graph(); };
  const auto no_config = [](int) { return std::string(); };
  start(same, no_config);
  expect_error<UsageError>([&] { start(same, [](int rank) { return join("train.seed = ", rank); }); }, {"rank 1", "config", "same config"});
  expect_error<UsageError>([&] { start([](int rank) { return rank == 0 ? skip_graph() : image_graph(); }, no_config); },
                           {"rank 1", "model"});
  const auto dropping = [](int rank) {
    layers::Graph graph;
    const auto x = graph.input("x", {3}), target = graph.input("target", {3});
    const auto y = graph.add("linear", layers::Linear(3, 3), graph.add("drop", layers::Dropout(rank == 0 ? 0.1 : 0.2), x));
    graph.loss(graph.add("loss", layers::MeanSquaredError(), {y, target}));
    return graph;
  };
  expect_error<UsageError>([&] { start(dropping, no_config); }, {"rank 1", "model", "same code of the model"});
  expect_error<UsageError>([] { run_ranks(2, [](Group& group) { trainer_of(group, skip_graph(), {.ranks = 2, .devices = 3}, 6); }); },
                           {"equally many devices", "2 ranks", "got 3", "or list 4"});
}

/// A rank that was given samples of its own, as other libraries want it, sent activations of these to another one's targets.
TEST(Ranks, RefuseMiniBatchesOfOtherSamples) {
  const auto step_or_evaluate = [](bool steps) {
    run_ranks(2, [&](Group& group) {
      const auto trainer = trainer_of(group, skip_graph(), {.ranks = 2, .devices = 2}, 6);
      EXPECT_NO_THROW(trainer->step(skip_batch(6, 1)));
      const Batch own = skip_batch(6, static_cast<uint64_t>(group.rank()));
      steps ? static_cast<void>(trainer->step(own)) : static_cast<void>(trainer->evaluate(own));
    });
  };
  for (const bool steps : {true, false})
    expect_error<UsageError>([&] { step_or_evaluate(steps); },
                             {"image f32 [6], the first with hash", "the same mini-batches on all ranks"});
}

/// Other hardware may prepare the same samples with other bits.
TEST(Ranks, TakeMiniBatchesOfOtherBitsWhereOtherHardwareIsAllowed) {
  run_ranks(2, [&](Group& group) {
    const auto trainer = trainer_of(group, skip_graph(), {.ranks = 2, .devices = 2, .allow_other_hardware = true}, 6);
    EXPECT_NO_THROW(trainer->step(skip_batch(6, static_cast<uint64_t>(group.rank()))));
  });
}

TEST(Ranks, EndARunTogetherWhenOneFails) {
  std::mutex mutex;
  std::vector<std::string> others;
  const layers::Graph graph = skip_graph();
  const auto fails = [&](Group& group) {
    const auto trainer = trainer_of(group, graph, {.ranks = 4, .devices = 4}, 6);
    Batch batch = skip_batch(6, 1);
    const auto load = batch.load;
    if (group.is_root())
      batch.load = [load](const std::string& name, int64_t first, int64_t count) {
        if (first > 1) throw DataError("sample 2 is damaged");
        return load(name, first, count);
      };
    try {
      trainer->step(batch);
    } catch (const CommError& error) {
      std::lock_guard lock(mutex);
      others.push_back(error.what());
      throw;
    }
  };
  expect_error<DataError>([&] { run_ranks(4, fails); }, {"sample 2 is damaged"});
  EXPECT_EQ(others.size(), 3u);
  for (const std::string& other : others) EXPECT_NE(other.find("sample 2 is damaged"), std::string::npos) << other;
}

}  // namespace
}  // namespace sluice::parallel
