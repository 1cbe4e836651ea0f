// A device whose kernel never returned held run(), and with it the whole process, for ever.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <thread>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;

constexpr int kSamples = 6;
constexpr double kTimeoutSeconds = 5;  // long beside what a device takes to come to where it hangs, also on a busy machine

/// Holds up who comes while it is closed.
class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++visitors_;
    changed_.wait(lock, [this] { return !closed_; });
  }
  int visitors() {
    std::lock_guard lock(mutex_);
    return visitors_;
  }

 private:
  void set(bool closed) {
    {
      std::lock_guard lock(mutex_);
      closed_ = closed;
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int visitors_ = 0;
};

/// A layer whose kernel does not end while a gate is closed.
class Gated : public layers::Module {
 public:
  explicit Gated(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  Var forward(const layers::Call& call) const override {
    if (call.inputs[0].value().device().kind() == DeviceKind::cpu) gate_->pass();
    return call.inputs[0];
  }

 private:
  std::shared_ptr<Gate> gate_;
};

layers::Graph gated_graph(const std::shared_ptr<Gate>& gate) {
  layers::Graph graph;
  const auto image = graph.input("image", {6});
  const auto label = graph.input("label", {}, DType::i32);
  const auto stem = graph.add("stem", layers::Linear(6, 8), image);
  const auto gated = graph.add("gated", Gated(gate), stem);
  const auto logits = graph.add("logits", layers::Linear(8, 5), gated);
  graph.output(logits);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  return graph;
}

std::unique_ptr<Trainer> trainer_on(const char* names, const layers::Graph& graph) {
  const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), TrainerOptions{.seed = 7, .timeout_seconds = kTimeoutSeconds});
}

/// A batch that says when nobody has it any more.
Batch watched_batch(std::weak_ptr<int>& watch) {
  const auto token = std::make_shared<int>();
  watch = token;
  Batch batch = skip_batch(kSamples, 2);
  batch.load = [load = batch.load, token](const std::string& input, int64_t first, int64_t count) { return load(input, first, count); };
  return batch;
}

void await_end_of(const std::weak_ptr<int>& watch) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!watch.expired() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(watch.expired()) << "the thread that was given up goes on, or keeps what it had";
}

TEST(AWorkerThatNeverReturns, IsReportedAfterTheTimeoutAndLeavesATrainerThatRefusesAllAndCanBeDropped) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto gate = std::make_shared<Gate>();
  const auto graph = gated_graph(gate);
  auto trainer = trainer_on("cpu:0,cpu:1", graph);
  trainer->step(skip_batch(kSamples, 1));
  const auto saved = output.save(*trainer, "", {}, 3);
  const int visitors = gate->visitors();

  gate->close();
  std::weak_ptr<int> watch;
  expect_error<HangError>([&] { trainer->step(watched_batch(watch)); },
                          {"within 5 s (pipeline.timeout)", "device 1 (cpu:1) has finished RecvPost",
                           "device 0 (cpu:0) holds up the others: it stands in F(stage 0, micro-batch 0)",
                           "cpu:0 has not come back from F(stage 0, micro-batch 0)"});
  EXPECT_EQ(trainer->steps_done(), 1);
  const auto refuses = [&](const auto& work) { expect_error<HangError>(work, {"never came back from step 2", "end the process"}); };
  refuses([&] { trainer->require_whole(); });
  refuses([&] { trainer->step(skip_batch(kSamples, 2)); });
  refuses([&] { trainer->evaluate(skip_batch(kSamples, 2)); });
  refuses([&] { trainer->weights_hash(); });
  refuses([&] { trainer->averages(); });
  refuses([&] { trainer->publish_parameters(); });
  refuses([&] { output.save(*trainer, "", {}, 3); });
  refuses([&] { restore(open_checkpoint(saved), *trainer); });
  trainer.reset();
  EXPECT_FALSE(watch.expired()) << "the thread is still inside its action";

  gate->open();
  await_end_of(watch);
  EXPECT_EQ(gate->visitors(), visitors + 1) << "the thread ended with its action";
}

TEST(AWorkerThatNeverReturns, IsReportedWhereNoOtherDeviceWaitsForIt) {
  const auto gate = std::make_shared<Gate>();
  const auto graph = gated_graph(gate);
  auto trainer = trainer_on("cpu:0", graph);
  gate->close();
  std::weak_ptr<int> watch;
  expect_error<HangError>([&] { trainer->evaluate(watched_batch(watch)); }, {"an action has not ended within 5 s (pipeline.timeout)",
                                                                             "device 0 (cpu:0) has finished nothing and is in F(stage 0",
                                                                             "cpu:0 has not come back from F(stage 0, micro-batch 0)"});
  trainer.reset();
  gate->open();
  await_end_of(watch);
}

TEST(AWorkerThatNeverReturns, LeavesOtherTrainersToGoOn) {
  const auto gate = std::make_shared<Gate>();
  const auto graph = gated_graph(gate);
  auto stuck = trainer_on("cpu:0,cpu:1", graph);
  gate->close();
  std::weak_ptr<int> watch;
  expect_error<HangError>([&] { stuck->step(watched_batch(watch)); }, {"has not come back"});
  stuck.reset();
  const auto free_gate = std::make_shared<Gate>();
  EXPECT_GT(trainer_on("cpu:0,cpu:1", gated_graph(free_gate))->step(skip_batch(kSamples, 1)).loss, 0);
  gate->open();
  await_end_of(watch);
}

}  // namespace
}  // namespace sluice::parallel
