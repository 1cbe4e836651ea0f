#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"

/// Trainings over replicas, stages and ranks (as threads), held against the plan's bytes.
namespace sluice::testing {

struct ReplicaJob {
  int replicas = 1, stages = 1, ranks = 1;
  int fold_blocks = 4;
  bool shards_optimizer = true;
  parallel::ReplicaDevices replica_devices = parallel::ReplicaDevices::together;
  parallel::NamedSchedule schedule = parallel::NamedSchedule::one_f_one_b;
  int micro_batches = 5;
  Precision precision = Precision::f32;
  double ema = 0;
  parallel::Remat remat = parallel::Remat::none;
  int gpus = 0;  ///< that the devices are on, in equal runs; 0: CPU devices
  parallel::CudaGraphs cuda_graphs = parallel::CudaGraphs::off;
  const Optimizer* optimizer = nullptr;  ///< null: AdamW

  int devices() const { return replicas * stages; }
};

std::string describe(const ReplicaJob& job);
/// "cuda:0,cuda:0,cuda:1,cuda:1", or "4x cpu".
std::string device_list(const ReplicaJob& job);
parallel::PlanOptions options_of(const ReplicaJob& job, int64_t samples);
std::unique_ptr<parallel::Trainer> trainer_of(parallel::Group& group, const layers::Graph& graph, const ReplicaJob& job, int64_t samples);
/// On these devices.
std::unique_ptr<parallel::Trainer> trainer_of(parallel::Group& group, const layers::Graph& graph, const ReplicaJob& job, int64_t samples,
                                              const std::vector<DevicePtr>& all);

/// What does not depend on replicas, stages and ranks.
struct ReplicaOutcome {
  std::string hash;
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> states;
  bool operator==(const ReplicaOutcome&) const = default;
};

/// Three steps, an evaluation with its predictions, and a step. States are put together over the ranks. Expects the bytes of every device and
/// between ranks to be those planned, and all ranks to say the same.
ReplicaOutcome train(const layers::Graph& graph, const ReplicaJob& job, int64_t samples, const BatchMaker& batch);

/// Trains by each job, saves, and goes on by every job from there: expects the weights of the first one, at once and a step later.
void expect_checkpoints_go_on(const layers::Graph& graph, const std::vector<ReplicaJob>& jobs, int64_t samples, const BatchMaker& batch);

}  // namespace sluice::testing
