#include "tests/parallel/replica_jobs.h"

#include <gtest/gtest.h>

#include <mutex>
#include <tuple>

#include "parallel/checkpoint.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/job_devices.h"
#include "tests/temporary_folder.h"

namespace sluice::testing {

using namespace parallel;

namespace {

std::unique_ptr<Optimizer> optimizer_of(const ReplicaJob& job) {
  auto optimizer = job.optimizer ? job.optimizer->clone() : AdamW({.lr = 1e-2}).clone();
  optimizer->ema = job.ema;
  return optimizer;
}

ReplicaOutcome steps_of(Trainer& trainer, const ReplicaJob& job, int64_t samples, const BatchMaker& batch) {
  ReplicaOutcome outcome;
  for (uint64_t step = 0; step < 3; ++step) {
    const StepResult result = trainer.step(batch(step));
    outcome.losses.insert(outcome.losses.end(), {result.loss, result.gradient_norm});
    EXPECT_EQ(result.bytes_between_ranks, result.planned_bytes_between_ranks) << describe(job);
    EXPECT_EQ(result.bytes_between_ranks > 0, job.ranks > 1) << describe(job);
    EXPECT_EQ(result.peak_bytes, counted_peak_bytes(trainer.graph(), trainer.plan(), *optimizer_of(job), samples)) << describe(job);
  }
  const auto evaluation = trainer.evaluate(batch(kEvaluationSeed), true);
  outcome.losses.push_back(evaluation.loss_sum / evaluation.weight);
  for (const auto& [name, output] : evaluation.outputs)
    for (const double value : output.to_vector()) outcome.losses.push_back(value);
  outcome.losses.push_back(trainer.step(batch(4)).loss);
  outcome.hash = trainer.weights_hash();
  for (const auto& [name, tensor] : trainer.optimizer_states()) outcome.states[name] = tensor.to_vector();
  for (const auto& [name, tensor] : trainer.averages()) outcome.states[name + "/average"] = tensor.to_vector();
  return outcome;
}

}  // namespace

std::string describe(const ReplicaJob& job) {
  return join(job.replicas, " replicas of ", job.stages, " devices ", name_of(job.replica_devices), " on ", job.ranks, " ranks, ",
              job.fold_blocks, " blocks, ", job.shards_optimizer ? "sharded" : "whole", " optimizer, ", name_of(job.schedule), ", ",
              job.micro_batches, " micro-batches, ", name_of(job.precision));
}

std::string device_list(const ReplicaJob& job) {
  if (job.gpus == 0) return join(job.devices(), "x cpu");
  std::string list;
  for (int device = 0; device < job.devices(); ++device) list += join(list.empty() ? "" : ",", "cuda:", device * job.gpus / job.devices());
  return list;
}

PlanOptions options_of(const ReplicaJob& job, int64_t samples) {
  return {.batch = samples,
          .micro_batches = job.micro_batches,
          .schedule = {job.schedule, job.schedule == NamedSchedule::interleaved ? 2 : 1},
          .remat = job.remat,
          .precision = job.precision,
          .replicas = job.replicas,
          .replica_devices = job.replica_devices,
          .fold_blocks = job.fold_blocks,
          .shards_optimizer = job.shards_optimizer,
          .optimizer = job.optimizer};
}

std::unique_ptr<Trainer> trainer_of(Group& group, const layers::Graph& graph, const ReplicaJob& job, int64_t samples) {
  return trainer_of(group, graph, job, samples, devices_of_job(device_list(job), {}, {}, &group));
}

std::unique_ptr<Trainer> trainer_of(Group& group, const layers::Graph& graph, const ReplicaJob& job, int64_t samples,
                                    const std::vector<DevicePtr>& all) {
  Group* const ranks = group.size() > 1 ? &group : nullptr;
  const Plan chosen = planned_by_root(ranks, all, [&] { return plan(graph, all, options_of(job, samples)); });
  TrainerOptions options{.seed = 3, .clip = 0.5, .timeout_seconds = 60, .stochastic_rounding = job.precision == Precision::bf16};
  options.cuda_graphs = job.cuda_graphs;
  options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
  return std::make_unique<Trainer>(graph, chosen, *optimizer_of(job), options);
}

ReplicaOutcome train(const layers::Graph& graph, const ReplicaJob& job, int64_t samples, const BatchMaker& batch) {
  std::mutex mutex;
  ReplicaOutcome all;
  run_ranks(job.ranks, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, job, samples);
    ReplicaOutcome outcome = steps_of(*trainer, job, samples, batch);
    std::lock_guard lock(mutex);
    EXPECT_TRUE(all.hash.empty() || outcome.losses == all.losses) << "ranks differ: " << describe(job);
    all.hash = outcome.hash;
    all.losses = outcome.losses;
    for (auto& [name, values] : outcome.states) EXPECT_TRUE(all.states.emplace(name, values).second) << name << " is on two ranks";
  });
  return all;
}

void expect_checkpoints_go_on(const layers::Graph& graph, const std::vector<ReplicaJob>& jobs, int64_t samples, const BatchMaker& batch) {
  constexpr uint64_t kSteps = 2;
  for (const ReplicaJob& from : jobs) {
    const TemporaryFolder folder;
    std::string saved, later;
    run_ranks(from.ranks, [&](Group& group) {
      const auto trainer = trainer_of(group, graph, from, samples);
      for (uint64_t step = 0; step < kSteps; ++step) trainer->step(batch(step));
      OutputFolder(folder.path() / "run", trainer->group()).save(*trainer, "", {}, 1);
      const std::string at_save = trainer->weights_hash();
      trainer->step(batch(kSteps));
      const std::string after = trainer->weights_hash();
      if (group.is_root()) std::tie(saved, later) = std::pair(at_save, after);
    });
    for (const ReplicaJob& to : jobs)
      run_ranks(to.ranks, [&](Group& group) {
        const auto trainer = trainer_of(group, graph, to, samples);
        restore(open_checkpoint(folder.path() / "run" / "step-00000002"), *trainer);
        EXPECT_EQ(trainer->weights_hash(), saved) << describe(from) << " -> " << describe(to);
        trainer->step(batch(kSteps));
        EXPECT_EQ(trainer->weights_hash(), later) << describe(from) << " -> " << describe(to);
      });
  }
}

}  // namespace sluice::testing
