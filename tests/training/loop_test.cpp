// The training loop: what is done at which step, where it ends, and that it goes on as if it had never stopped.
#include "training/loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "core/file/file.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/job_devices.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"
#include "tests/training/point_classifier.h"
#include "training/report/training_record.h"

namespace sluice::training {
namespace {

constexpr int64_t kBatch = 16;

std::unique_ptr<parallel::Trainer> trainer_over(const char* names, double lr = 1e-2) {
  const layers::Graph graph = point_classifier();
  return std::make_unique<parallel::Trainer>(graph, parallel::plan(graph, devices(names), {.batch = kBatch, .micro_batches = 2}),
                                             AdamW({.lr = lr}), parallel::TrainerOptions{.seed = 5});
}

LoopOptions options_of(int64_t steps) {
  return {.steps = steps, .batch = kBatch, .seed = 3, .evaluate_every = 10, .metrics = {{"accuracy", accuracy()}}};
}

TEST(TrainingLoop, TrainsEvaluatesAndSavesAtTheStepsThatAreAskedFor) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(60);
  options.output = folder.path() / "run";
  options.save_every = 25;
  options.config = "words = 1";
  options.files = {{"labels.txt", "two"}};
  const auto trainer = trainer_over("cpu:0,cpu:1");
  Loop loop(*trainer, point_dataset(), options);
  std::vector<int64_t> steps, evaluations, saves;
  std::vector<double> losses, accuracies;
  loop.on_step = [&](const Loop::Step& step) {
    steps.push_back(step.number);
    EXPECT_EQ(step.batch.samples, kBatch);
  };
  loop.on_evaluation = [&](int64_t step, const Evaluation& evaluation) {
    evaluations.push_back(step);
    losses.push_back(evaluation.loss.value());
    accuracies.push_back(evaluation.metrics.at("accuracy"));
  };
  loop.on_save = [&](const Loop::Saved& saved) {
    saves.push_back(saved.step);
    EXPECT_TRUE(std::filesystem::is_directory(saved.folder));
    EXPECT_FALSE(saved.is_best || saved.after_error);
  };
  EXPECT_EQ(loop.run(), Loop::End::steps_done);
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 60);
  EXPECT_EQ(evaluations, (std::vector<int64_t>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(saves, (std::vector<int64_t>{25, 50, 60}));
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_GT(accuracies.back(), std::max(0.7, accuracies.front()));
  const auto latest = parallel::find_latest(folder.path() / "run", {});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, 60);
  EXPECT_EQ(latest->config, "words = 1");
  EXPECT_GT(loop.seconds().steps, 0);
  EXPECT_GT(loop.seconds().data, 0);
  EXPECT_EQ(read_file(latest->path_of("labels.txt")), "two");
}

TEST(TrainingLoop, EvaluatesAsThePlainWayDoes) {
  const auto trainer = trainer_over("cpu:0");
  Loop loop(*trainer, point_dataset(), options_of(10));
  Evaluation last;
  loop.on_evaluation = [&](int64_t, const Evaluation& evaluation) { last = evaluation; };
  loop.run();
  const Batch all = batch_of(labelled_points(64, 2));
  const auto result = trainer->evaluate(all, true);
  EXPECT_NEAR(*last.loss, result.loss_sum / result.weight, 1e-6);
  const auto logits = result.output.to_vector(), labels = labelled_points(64, 2).at("label").to_vector();
  int hits = 0;
  for (size_t i = 0; i < labels.size(); ++i) hits += (logits[2 * i + 1] > logits[2 * i]) == (labels[i] == 1);
  EXPECT_DOUBLE_EQ(last.metrics.at("accuracy"), hits / 64.0);
}

TEST(TrainingLoop, GoesOnBitForBitWithItsEvaluations) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(40);
  const auto whole = trainer_over("cpu:0,cpu:1");
  Loop at_once(*whole, point_dataset(), options);
  at_once.run();
  options.output = folder.path() / "run";
  std::string hash;
  EvaluationHistory history;
  for (const int64_t steps : {15, 40}) {
    options.steps = steps;
    const auto trainer = trainer_over(steps == 15 ? "cpu:0" : "cpu:0,cpu:1,cpu:2");
    Loop loop(*trainer, point_dataset(), options);
    EXPECT_EQ(loop.resume(), steps == 40);
    loop.run();
    hash = trainer->weights_hash();
    history = loop.history();
  }
  EXPECT_EQ(hash, whole->weights_hash());
  std::map<int64_t, double> losses;
  for (const auto& entry : history.entries()) losses[entry.step] = entry.loss;
  for (const auto& entry : at_once.history().entries()) EXPECT_EQ(losses.at(entry.step), entry.loss) << entry.step;
}

/// Patience once counted fewer evaluations than that of a training which never stopped, and ended elsewhere.
TEST(TrainingLoop, MakesTheEvaluationThatTheLastCheckpointLacks) {
  LoopOptions options = options_of(40);
  const auto whole = trainer_over("cpu:0");
  Loop at_once(*whole, point_dataset(), options);
  at_once.run();
  for (const bool by_a_signal : {false, true}) {
    const TemporaryFolder folder;
    options.output = folder.path() / "run";
    EvaluationHistory history;
    for (const int64_t steps : {20, 40}) {
      options.steps = by_a_signal ? 40 : steps;
      const auto trainer = trainer_over("cpu:0");
      Loop loop(*trainer, point_dataset(), options);
      if (by_a_signal && steps == 20) loop.stop = [&] { return trainer->steps_done() == 20; };  // in the evaluation of that step
      EXPECT_EQ(loop.resume(), steps == 40);
      loop.run();
      EXPECT_EQ(trainer->steps_done(), steps);
      history = loop.history();
    }
    EXPECT_EQ(history.entries(), at_once.history().entries()) << by_a_signal;
  }
}

TEST(TrainingLoop, MakesNoEvaluationTwiceOrThatIsNotDue) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(15);
  options.output = folder.path() / "run";
  for (const auto& [steps, save_every, expected] :
       {std::tuple(15, 0, std::vector<int64_t>{10, 15}), {25, 10, {20, 25}}, {35, 10, {30, 35}}}) {
    options.steps = steps;
    options.save_every = save_every;
    const auto trainer = trainer_over("cpu:0");
    Loop loop(*trainer, point_dataset(), options);
    std::vector<int64_t> evaluations;
    loop.on_evaluation = [&](int64_t step, const Evaluation&) { evaluations.push_back(step); };
    if (steps == 35) loop.restore(parallel::open_checkpoint(folder.path() / "run" / "step-00000020"));  // made after its evaluation
    if (steps == 25) loop.resume();
    loop.run();
    EXPECT_EQ(evaluations, expected);
  }
}

TEST(TrainingLoop, EndsWhenNothingGetsBetterAndKeepsTheBest) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(1000);
  options.output = folder.path() / "run";
  options.evaluate_every = 1;
  options.patience = 4;
  options.keep_best = true;
  const auto trainer = trainer_over("cpu:0", 0.3);  // a rate that soon goes up and down
  Loop loop(*trainer, point_dataset(), options);
  std::map<int64_t, std::string> hashes;
  loop.on_evaluation = [&](int64_t step, const Evaluation&) { hashes[step] = trainer->weights_hash(); };
  ASSERT_EQ(loop.run(), Loop::End::no_better);
  const auto* best = loop.history().best();
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(trainer->steps_done(), best->step + 4);
  for (const auto& entry : loop.history().entries()) EXPECT_GE(entry.loss, best->loss);
  const auto kept = parallel::find_latest(folder.path() / "run" / Loop::kBestFolder, {});
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->step, best->step);
  EXPECT_EQ(kept->weights_hash, hashes.at(best->step));
  EXPECT_EQ(parallel::finished_checkpoints(folder.path() / "run" / Loop::kBestFolder).size(), 1u);
  const auto again = trainer_over("cpu:0", 0.3);
  LoopOptions more = options;
  more.output.clear();
  more.keep_best = false;
  Loop resumed(*again, point_dataset(), more);
  resumed.restore(parallel::open_checkpoint(parallel::finished_checkpoints(folder.path() / "run").back()));
  EXPECT_EQ(resumed.run(), Loop::End::no_better);
  EXPECT_EQ(again->steps_done(), trainer->steps_done()) << "it has had all its patience";
}

/// The folder once stayed empty, as nothing that followed was better than what another folder has.
TEST(TrainingLoop, KeepsTheBestOfWhatFollowsWhereTheBestUntilThenIsElsewhere) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(30);
  options.output = folder.path() / "first";
  options.keep_best = true;
  const auto first = trainer_over("cpu:0");
  Loop(*first, point_dataset(), options).run();
  const auto checkpoint = parallel::find_latest(options.output, {});
  ASSERT_TRUE(checkpoint.has_value());
  const auto best_of_second = [](const EvaluationHistory& history) {
    EvaluationHistory later;
    for (const auto& entry : history.entries())
      if (entry.step > 30) later.add(entry);
    return later.best()->step;
  };
  for (const bool in_the_same : {false, true}) {
    if (!in_the_same) options.output = folder.path() / "second";
    options.steps = in_the_same ? 50 : 40;
    const auto trainer = trainer_over("cpu:0", 10);  // a rate that only makes it worse
    Loop loop(*trainer, point_dataset(), options);
    std::vector<std::string> warnings;
    loop.on_warning = [&](const std::string& text) { warnings.push_back(text); };
    if (in_the_same)
      EXPECT_TRUE(loop.resume());
    else
      loop.restore(*checkpoint);
    loop.run();
    EXPECT_EQ(loop.history().best()->step, 30) << "the test needs a training that gets worse";
    const auto kept = parallel::find_latest(folder.path() / "second" / Loop::kBestFolder, {});
    ASSERT_TRUE(kept.has_value());
    EXPECT_GT(kept->step, 30);
    ASSERT_EQ(warnings.size(), in_the_same ? 0u : 1u);
    if (!in_the_same) {
      EXPECT_NE(warnings[0].find("of step 30, are not in"), std::string::npos) << warnings[0];
    }
    EXPECT_EQ(kept->step, best_of_second(loop.history()));
  }
}

TEST(TrainingLoop, TellsOtherSamplesFromThoseThatItWasTrainedOn) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(10);
  options.output = folder.path() / "run";
  const auto first = trainer_over("cpu:0");
  Loop(*first, point_dataset(), options).run();
  const auto warnings_with = [&](data::DatasetPtr dataset) {
    std::vector<std::string> warnings;
    const auto trainer = trainer_over("cpu:0");
    Loop loop(*trainer, std::move(dataset), options);
    loop.on_warning = [&](const std::string& text) { warnings.push_back(text); };
    EXPECT_TRUE(loop.resume());
    return warnings;
  };
  EXPECT_TRUE(warnings_with(point_dataset()).empty());
  const auto warnings = warnings_with(std::make_shared<data::TensorDataset>(labelled_points(256, 99), labelled_points(64, 98)));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("was trained on other samples"), std::string::npos) << warnings[0];
  // What training alone sees otherwise, as augmentation does, says nothing of classes and of what is validated on.
  const auto flipped = warnings_with(std::make_shared<data::TensorDataset>(labelled_points(256, 99), labelled_points(64, 2)));
  ASSERT_EQ(flipped.size(), 1u);
  EXPECT_NE(flipped[0].find("augmented, padded or cut otherwise"), std::string::npos) << flipped[0];
}

/// Also where the earlier one got further, and kept a better best.
TEST(TrainingLoop, SetsAsideWhatAnotherTrainingLeft) {
  const TemporaryFolder folder;
  const auto output = folder.path() / "run", best = output / Loop::kBestFolder;
  LoopOptions options = options_of(30);
  options.output = output;
  options.keep_best = true;
  const auto train = [&](double lr, bool resumes) {
    const auto trainer = trainer_over("cpu:0", lr);
    Loop loop(*trainer, point_dataset(), options);
    if (resumes) {
      EXPECT_TRUE(loop.resume());
    }
    loop.run();
    return loop.history();
  };
  train(1e-2, false);
  options.steps = 10;
  const EvaluationHistory second = train(1e-5, false);
  EXPECT_EQ(second.entries().size(), 1u);
  EXPECT_TRUE(is_directory(output / "previous-1" / "step-00000030"));
  EXPECT_TRUE(is_directory(best / "previous-1" / "step-00000030"));
  EXPECT_EQ(parallel::finished_checkpoints(output), std::vector<std::string>{output / "step-00000010"});
  EXPECT_EQ(parallel::finished_checkpoints(best), std::vector<std::string>{best / "step-00000010"});
  options.steps = 20;
  const EvaluationHistory resumed = train(1e-5, true);
  EXPECT_EQ(resumed.entries().size(), 2u);
  EXPECT_EQ(resumed.entries()[0], second.entries()[0]) << "of the second training, not of the first";
  EXPECT_FALSE(exists(output / "previous-2"));
}

/// Two ranks of a device each against one process with both: the same evaluations, the same best, and a resume.
TEST(TrainingLoop, DoesTheSameOverRanks) {
  const TemporaryFolder folder;
  const layers::Graph graph = point_classifier();
  LoopOptions options = options_of(40);
  options.evaluate_every = 2;
  options.patience = 3;
  options.keep_best = true;
  options.save_every = 5;
  std::mutex mutex;
  std::map<std::string, std::vector<EvaluationHistory::Entry>> entries;
  std::map<std::string, std::string> hashes;
  const auto train = [&](const std::string& name, parallel::Group& group) {
    const auto all = parallel::devices_of_job("2x cpu", {}, {}, &group);
    parallel::Group* const ranks = group.size() > 1 ? &group : nullptr;
    const auto plan =
        parallel::planned_by_root(ranks, all, [&] { return parallel::plan(graph, all, {.batch = kBatch, .micro_batches = 2}); });
    parallel::TrainerOptions of_trainer{.seed = 5, .timeout_seconds = 60};
    of_trainer.group = std::shared_ptr<parallel::Group>(std::shared_ptr<parallel::Group>(), &group);
    LoopOptions own = options;
    own.output = folder.path() / name;
    for (const int64_t steps : {7, 40}) {
      own.steps = steps;
      parallel::Trainer trainer(graph, plan, AdamW({.lr = 0.3}), of_trainer);
      Loop loop(trainer, point_dataset(), own);
      EXPECT_EQ(loop.resume(), steps == 40);
      const auto end = loop.run();
      EXPECT_EQ(end, steps == 40 ? Loop::End::no_better : Loop::End::steps_done) << name;
      const std::string hash = trainer.weights_hash();
      std::lock_guard lock(mutex);
      entries[join(name, steps, " of rank ", group.rank())] = loop.history().entries();
      hashes[join(name, steps, " of rank ", group.rank())] = hash;
    }
  };
  parallel::run_ranks(1, [&](parallel::Group& group) { train("one", group); });
  parallel::run_ranks(2, [&](parallel::Group& group) { train("two", group); });
  for (const char* steps : {"7", "40"})
    for (const int rank : {0, 1}) {
      EXPECT_EQ(entries.at(join("two", steps, " of rank ", rank)), entries.at(join("one", steps, " of rank 0")));
      EXPECT_EQ(hashes.at(join("two", steps, " of rank ", rank)), hashes.at(join("one", steps, " of rank 0")));
    }
  const auto best_of = [&](const char* name) { return parallel::find_checkpoint(folder.path() / name / Loop::kBestFolder); };
  EXPECT_EQ(best_of("two").step, best_of("one").step);
  EXPECT_EQ(best_of("two").weights_hash, best_of("one").weights_hash);
}

/// Of one rank of two, on a device each.
parallel::Trainer trainer_of_rank(const layers::Graph& graph, parallel::Group& group) {
  const auto all = parallel::devices_of_job("2x cpu", {}, {}, &group);
  const auto plan =
      parallel::planned_by_root(&group, all, [&] { return parallel::plan(graph, all, {.batch = kBatch, .micro_batches = 2}); });
  parallel::TrainerOptions of_trainer{.seed = 5, .timeout_seconds = 60};
  of_trainer.group = std::shared_ptr<parallel::Group>(std::shared_ptr<parallel::Group>(), &group);
  return {graph, plan, AdamW({.lr = 0.3}), of_trainer};
}

/// As with data.validation = 0: the ranks compared a first mini-batch that was not there.
TEST(TrainingLoop, TrainsOverRanksWithoutSamplesToValidateOn) {
  const layers::Graph graph = point_classifier();
  const auto dataset = point_dataset();
  LoopOptions options = options_of(2);
  options.evaluate_sampler =
      std::make_shared<data::SequentialSampler>(*dataset, data::Split::validation, std::vector<int64_t>{}, [](int64_t) { return kBatch; });
  parallel::run_ranks(2, [&](parallel::Group& group) {
    auto trainer = trainer_of_rank(graph, group);
    Loop loop(trainer, dataset, options);
    EXPECT_EQ(loop.run(), Loop::End::steps_done);
    EXPECT_EQ(trainer.steps_done(), 2);
  });
}

/// What one rank has otherwise than the root; without a word it would train on inputs of one mini-batch and targets of another.
TEST(TrainingLoop, RefusesRanksWhoseLoopsDiffer) {
  const layers::Graph graph = point_classifier();
  TrainingRecord record;
  struct Case {
    std::function<void(LoopOptions&)> change;
    const char* names;
  };
  const Case cases[] = {
      {[](LoopOptions& options) { options.seed = 4; }, "needs LoopOptions::seed as on the root, '3', got '4'"},
      {[](LoopOptions& options) { options.batch = 8; }, "needs LoopOptions::batch as on the root, '16', got '8'"},
      {[](LoopOptions& options) { options.steps = 3; }, "needs LoopOptions::steps as on the root, '2', got '3'"},
      {[&](LoopOptions& options) { options.record = &record; }, "needs LoopOptions::record as on the root, 'missing', got 'there'"},
      {[](LoopOptions& options) { options.metrics.clear(); }, "needs LoopOptions::metrics as on the root, 'accuracy', got ''"},
      {[&](LoopOptions& options) { options.sampler = std::make_shared<data::ShuffledSampler>(64, kBatch, 3); },
       "needs LoopOptions::sampler as on the root, 'none', got '4 batches an epoch"},
  };
  for (const Case& wrong : cases)
    parallel::run_ranks(2, [&](parallel::Group& group) {
      auto trainer = trainer_of_rank(graph, group);
      LoopOptions options = options_of(2);
      if (group.rank() == 1) wrong.change(options);
      Loop loop(trainer, point_dataset(), options);
      expect_error<UsageError>([&] { loop.run(); }, {"training loop: ", wrong.names, "rank 1"});
      EXPECT_EQ(trainer.steps_done(), 0);
    });
}

TEST(TrainingLoop, WatchesAMetricThatShouldRise) {
  LoopOptions options = options_of(50);
  int evaluations = 0;
  options.metrics["falling"] = mean_of([&](const Tensor&, const Batch&) { return -evaluations; });
  options.watched = "falling";
  options.patience = 2;
  const auto trainer = trainer_over("cpu:0");
  Loop loop(*trainer, point_dataset(), options);
  loop.on_evaluation = [&](int64_t, const Evaluation&) { ++evaluations; };
  EXPECT_EQ(loop.run(), Loop::End::no_better);
  EXPECT_EQ(loop.history().best()->step, 10);
  EXPECT_EQ(trainer->steps_done(), 30);
}

/// The evaluation at the end of an earlier run counted where it was kept as the best: the training ended before an uninterrupted one would.
TEST(TrainingLoop, HasPatienceWithEvaluationsThatAnUninterruptedTrainingMakes) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(40);
  options.output = folder.path() / "run";
  double score = 100;
  options.metrics["score"] = mean_of([&](const Tensor&, const Batch&) { return score; });
  options.watched = "score";
  options.patience = 2;
  options.keep_best = true;
  const auto ends_at = [&](int64_t steps) {
    options.steps = steps;
    const auto trainer = trainer_over("cpu:0");
    Loop loop(*trainer, point_dataset(), options);
    loop.resume();
    loop.on_evaluation = [&](int64_t step, const Evaluation&) { score = static_cast<double>(step); };  // of the next one: better each time
    loop.run();
    return trainer->steps_done();
  };
  EXPECT_EQ(ends_at(5), 5);
  EXPECT_EQ(parallel::find_checkpoint(folder.path() / "run" / Loop::kBestFolder).step, 5);
  EXPECT_EQ(ends_at(40), 40);
}

TEST(TrainingLoop, EndsWhereItIsToldAndSaves) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(100);
  options.output = folder.path() / "run";
  const auto trainer = trainer_over("cpu:0");
  Loop loop(*trainer, point_dataset(), options);
  loop.stop = [&] { return trainer->steps_done() >= 7; };
  EXPECT_EQ(loop.run(), Loop::End::stopped);
  EXPECT_TRUE(loop.history().entries().empty());
  EXPECT_EQ(parallel::find_latest(folder.path() / "run", {})->step, 7);
}

TEST(TrainingLoop, SavesTheLastGoodStepBeforeAnErrorIsThrown) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(100);
  options.output = folder.path() / "run";
  const auto trainer = trainer_over("cpu:0");
  Loop loop(*trainer, point_dataset(), options);
  std::optional<Loop::Saved> saved;
  loop.on_save = [&](const Loop::Saved& now) { saved = now; };
  loop.on_step = [](const Loop::Step& step) { require<DataError>(step.number < 5, "the log is full"); };
  expect_error<DataError>([&] { loop.run(); }, {"the log is full"});
  ASSERT_TRUE(saved.has_value());
  EXPECT_TRUE(saved->after_error);
  EXPECT_EQ(saved->step, 5);
  EXPECT_EQ(parallel::open_checkpoint(saved->folder).weights_hash, trainer->weights_hash());
}

/// The evaluation went into the last checkpoint and its weights nowhere: another step took the place of the best one.
TEST(TrainingLoop, KeepsTheBestStepThoughAnErrorFollowsItsEvaluation) {
  const TemporaryFolder folder;
  LoopOptions options = options_of(40);
  options.evaluate_every = 1;
  options.keep_best = true;
  std::optional<int64_t> bad_step;
  const auto run = [&](const char* name) {
    options.output = folder.path() / name;
    const auto trainer = trainer_over("cpu:0", 0.3);  // a rate that soon goes up and down
    Loop loop(*trainer, point_dataset(), options);
    loop.on_warning = [](const std::string& text) { ADD_FAILURE() << text; };
    loop.on_evaluation = [&](int64_t step, const Evaluation&) { require<DataError>(step != bad_step, "the log is full"); };
    loop.resume();
    loop.run();
    return parallel::find_latest(folder.path() / name / Loop::kBestFolder, {}).value();
  };
  const auto best = run("undisturbed");
  ASSERT_LT(best.step, 40) << "the test needs a best step before the last";
  bad_step = best.step;
  expect_error<DataError>([&] { run("disturbed"); }, {"the log is full"});
  bad_step.reset();
  const auto kept = run("disturbed");
  EXPECT_EQ(kept.step, best.step);
  EXPECT_EQ(kept.weights_hash, best.weights_hash);
}

TEST(TrainingLoop, RefusesOptionsOutOfRangeAndNamesThem) {
  const auto trainer = trainer_over("cpu:0");
  const auto made = [&](const auto& change) {
    LoopOptions options = options_of(10);
    change(options);
    Loop(*trainer, point_dataset(), options);
  };
  expect_error<UsageError>([&] { made([](auto& o) { o.steps = -1; }); }, {"LoopOptions::steps", "got -1"});
  expect_error<UsageError>([&] { made([](auto& o) { o.keep = 0; }); }, {"LoopOptions::keep", "at least 1"});
  expect_error<UsageError>([&] { made([](auto& o) { o.watched = "acuracy"; }); }, {"LoopOptions::watched", "acuracy"});
  expect_error<UsageError>([&] { made([](auto& o) { o.patience = 3, o.evaluate_every = 0; }); },
                           {"LoopOptions::patience", "got 3", "LoopOptions::evaluate_every"});
  expect_error<UsageError>([&] { made([](auto& o) { o.keep_best = true; }); }, {"keep_best", "set LoopOptions::output"});
  expect_error<UsageError>([&] { made([](auto& o) { o.save_every = 5; }); }, {"save_every", "set LoopOptions::output"});
  expect_error<UsageError>(
      [&] {
        Loop loop(*trainer, point_dataset(), options_of(10));
        loop.resume();
      },
      {"resume", "set LoopOptions::output"});
  expect_error<UsageError>(
      [&] {
        LoopOptions options = options_of(1);
        options.metrics = {{"accuracy", accuracy("x")}};
        Loop(*trainer, point_dataset(), options).run();
      },
      {"accuracy", "'x'", "for each row"});
}

TEST(EvaluationHistory, KeepsItsEntriesAsTextAndNeverTakesWhatIsNotFiniteForBetter) {
  EvaluationHistory history("f1");
  history.add({10, 2.5, {{"f1", 0.25}}});
  history.add({20, NAN, {{"f1", NAN}}});
  history.add({30, 2.0, {{"f1", 0.25}}});
  EXPECT_EQ(history.best()->step, 10) << "of equal ones the first";
  EXPECT_EQ(history.since_best(), 2);
  EvaluationHistory read("f1");
  read.read(history.text(), "evaluations.json");
  ASSERT_EQ(read.entries().size(), 3u);
  EXPECT_EQ(read.entries()[0], history.entries()[0]);
  EXPECT_TRUE(std::isnan(read.entries()[1].loss));
  EXPECT_EQ(read.since_best(), 2);
  for (const char* text : {"", "[1]", "{\"step\": 1}", "[{\"step\": \"x\", \"loss\": 1, \"metrics\": {}}]"})
    expect_error<DataError>([&] { read.read(text, "evaluations.json"); }, {"evaluations.json", "another checkpoint"});
  expect_error<UsageError>([&] { history.add({40, 1, {{"f2", 1}}}); }, {"'f1'", "f2"});
  EXPECT_EQ(EvaluationHistory().best(), nullptr);
}

}  // namespace
}  // namespace sluice::training
