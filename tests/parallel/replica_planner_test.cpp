#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/device_description.h"
#include "models/transformer.h"
#include "parallel/plan.h"
#include "parallel/plan/replicas.h"
#include "tests/expect_error.h"
#include "tests/parallel/random_graph.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

const AdamW kOptimizer({.lr = 1e-3});

std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices) {
  std::vector<DeviceSpeed> speeds;
  for (const auto& device : devices) speeds.push_back(device->options().speed);
  return speeds;
}

Prediction predicted(const layers::Graph& graph, const Plan& plan, int64_t batch) {
  return predict(graph, plan, kOptimizer, batch, speeds_of(plan.devices));
}

struct Tried {
  double best = std::numeric_limits<double>::infinity();
  int plans = 0, fit = 0;
};

/// Every number of replicas by itself, with devices together and apart.
Tried try_one_by_one(const layers::Graph& graph, const std::vector<DevicePtr>& devices, PlanOptions options,
                     const std::vector<ReplicaTrial>& trials) {
  Tried tried;
  const int count = static_cast<int>(devices.size());
  for (int replicas = 1; replicas <= count; ++replicas) {
    if (count % replicas != 0) continue;
    for (const auto which : {ReplicaDevices::together, ReplicaDevices::apart}) {
      options.replicas = replicas;
      options.replica_devices = which;
      try {
        const Plan plan = parallel::plan(graph, devices, options);
        const Prediction prediction = predicted(graph, plan, options.batch);
        ++tried.plans;
        if (prediction.fits) {
          ++tried.fit;
          tried.best = std::min(tried.best, prediction.step_seconds);
        }
        for (const ReplicaTrial& trial : trials) {
          if (trial.replicas != replicas || trial.replica_devices != which || !prediction.fits) continue;
          EXPECT_GE(prediction.step_seconds, trial.step_seconds) << replicas << " replicas";
          EXPECT_TRUE(trial.is_bound || prediction.step_seconds == trial.step_seconds) << replicas << " replicas";
        }
      } catch (const UsageError&) {
      }
    }
  }
  return tried;
}

TEST(ReplicaPlanner, TakesTheFastestOfAllThatAreTriedOneByOne) {
  int chosen_replicas = 0, across = 0, bounds = 0, compared = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    sluice::testing::Draw draw(seed + 1);
    const auto made = sluice::testing::random_graph(seed);
    if (!made.has_shapes) continue;
    const int count = draw.of(std::vector{2, 4, 6, 8});
    Device::Options device;
    device.speed = {.flops_per_second = 1e9, .bytes_per_second = 1e9, .link_bytes_per_second = draw.of(std::vector{1e6, 1e8, 1e10})};
    device.speed.host_link_bytes_per_second = draw.of(std::vector{1e5, 1e7});
    if (draw.one_in(3)) device.budget_bytes = draw.from(3000, 20000);
    const DescribedOptions in_hosts{.devices_of_host = draw.of(std::vector{0, 2, 3})};
    auto devices = sluice::devices(join(count / 2, "x meta"), device, in_hosts);
    if (draw.one_in(2)) device.speed.link_bytes_per_second *= 100;  // each host's last link may be another one
    for (const auto& other : sluice::devices(join(count - count / 2, "x meta"), device, in_hosts)) devices.push_back(other);
    PlanOptions options{
        .batch = draw.of(std::vector<int64_t>{8, 10, 16}), .schedule = NamedSchedule::one_f_one_b, .optimizer = &kOptimizer};
    options.micro_batches = draw.one_in(2) ? CountChoice(8) : CountChoice(kOpen);
    options.shards_optimizer = !draw.one_in(4);
    std::vector<ReplicaTrial> trials;
    options.replicas = kOpen;
    options.tried = [&](const ReplicaTrial& trial) { trials.push_back(trial); };
    Plan plan;
    try {
      plan = parallel::plan(made.graph, devices, options);
    } catch (const UsageError&) {
      EXPECT_EQ(try_one_by_one(made.graph, devices, options, {}).plans, 0);
      continue;
    }
    const Tried tried = try_one_by_one(made.graph, devices, options, trials);
    const Prediction prediction = predicted(made.graph, plan, options.batch);
    EXPECT_EQ(prediction.fits, tried.fit > 0);
    if (!prediction.fits) continue;
    EXPECT_EQ(prediction.step_seconds, tried.best);
    ++compared;
    chosen_replicas += plan.replication.replicas > 1 && plan.replication.replicas < count;
    for (const ReplicaTrial& trial : trials) {
      bounds += trial.is_bound;
      across += trial.replica_devices == ReplicaDevices::apart && trial.step_seconds == prediction.step_seconds;
    }
  }
  EXPECT_GE(compared, 20);
  EXPECT_GE(chosen_replicas, 2);
  EXPECT_GE(across, 1);
  EXPECT_GE(bounds, 10);
}

models::TransformerOptions small_gpt() {
  models::TransformerOptions options = sluice::testing::tiny_transformer_options();
  options.vocab = 4000;
  return options;
}

/// Bounds once counted what is frozen, most of this model.
TEST(ReplicaPlanner, RulesOutNothingByGradientsThatNobodyExchanges) {
  int bounds = 0;
  for (const double link : {1e5, 1e6, 1e7})
    for (const NamedSchedule schedule : {NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}) {
      SCOPED_TRACE(join(name_of(schedule), ", link ", link));
      layers::Graph graph = models::transformer_lm(small_gpt());
      graph.freeze("embedding.*");
      Device::Options device;
      device.speed = {.flops_per_second = 1e9, .bytes_per_second = 1e9, .link_bytes_per_second = link};
      const auto devices = sluice::devices("2x meta", device);
      PlanOptions options{.batch = 8, .micro_batches = 4, .schedule = schedule, .optimizer = &kOptimizer};
      std::vector<ReplicaTrial> trials;
      options.replicas = kOpen;
      options.tried = [&](const ReplicaTrial& trial) { trials.push_back(trial); };
      const Plan plan = parallel::plan(graph, devices, options);
      EXPECT_EQ(predicted(graph, plan, options.batch).step_seconds, try_one_by_one(graph, devices, options, trials).best);
      for (const ReplicaTrial& trial : trials) bounds += trial.is_bound;
    }
  EXPECT_GE(bounds, 1);
}

TEST(ReplicaPlanner, SaysWhy) {
  const layers::Graph graph = models::transformer_lm(small_gpt());
  std::vector<ReplicaTrial> trials;
  PlanOptions options{.batch = 32, .micro_batches = kOpen, .replicas = kOpen};
  options.tried = [&](const ReplicaTrial& trial) { trials.push_back(trial); };
  const Plan plan = parallel::plan(graph, devices("4x h100"), options);
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(plan.replication.replicas, 4);
  const std::string why = why_so_many_replicas(trials);
  EXPECT_TRUE(why.starts_with("4 replicas of 1 device: ")) << why;
  EXPECT_NE(why.find("times as fast as one pipeline of 4 devices, because node 'logits' is "), std::string::npos) << why;
}

TEST(ReplicaPlanner, SaysWhatDoesNotFit) {
  const std::vector<ReplicaTrial> trials = {{.replicas = 1, .devices_of_replica = 4, .fits = true, .step_seconds = 2},
                                            {.replicas = 4, .devices_of_replica = 1, .fits = false}};
  EXPECT_EQ(why_so_many_replicas(trials), "one pipeline of 4 devices: the fastest of 2 layouts");
  const std::vector<ReplicaTrial> other = {{.replicas = 1, .devices_of_replica = 4, .fits = false},
                                           {.replicas = 2, .devices_of_replica = 2, .fits = true, .step_seconds = 2}};
  EXPECT_EQ(why_so_many_replicas(other), "2 replicas of 2 devices, as one pipeline of 4 devices does not fit");
}

/// Links between hosts are slow, so that the gradients stay within each and the few activations go between them.
TEST(ReplicaPlanner, LeavesTheExchangeOfGradientsInAHost) {
  models::TransformerOptions options_of_model = small_gpt();
  options_of_model.vocab = 40000;
  options_of_model.tied_embeddings = false;
  const layers::Graph graph = models::transformer_lm(options_of_model);
  const auto hosts = sluice::devices("4x h100", {}, {.devices_of_host = 2, .host_link = describe_link("ethernet-10g")});
  std::vector<ReplicaTrial> trials;
  PlanOptions options{.batch = 4, .micro_batches = 4, .schedule = NamedSchedule::one_f_one_b, .replicas = kOpen};
  options.tried = [&](const ReplicaTrial& trial) { trials.push_back(trial); };
  const Plan plan = parallel::plan(graph, hosts, options);
  ASSERT_EQ(trials.size(), 4U) << "one, two in both orders, four";
  std::map<std::pair<int, ReplicaDevices>, double> seconds;
  for (const ReplicaTrial& trial : trials) seconds[{trial.replicas, trial.replica_devices}] = trial.step_seconds;
  EXPECT_LT((seconds[{2, ReplicaDevices::apart}]), (seconds[{2, ReplicaDevices::together}]))
      << "a replica in both hosts sends no gradients between them";
  ASSERT_EQ(plan.replication.replicas, 2);
  EXPECT_EQ(plan.replica_devices, ReplicaDevices::apart);
  EXPECT_EQ(device_of_stage(plan), (std::vector{0, 2, 1, 3})) << "by replica, then stage";
  options.replicas = 2;
  EXPECT_EQ(parallel::plan(graph, hosts, options).replica_devices, ReplicaDevices::apart);
}

/// With all of the optimizer's states on each device, a budget would ask for rematerialization, or not do.
TEST(ReplicaPlanner, CountsTheStatesThatAReplicaHas) {
  models::TransformerOptions model = sluice::testing::tiny_transformer_options();
  model.vocab = 40000;
  const layers::Graph graph = models::transformer_lm(model);
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    PlanOptions options{.batch = 16,
                        .micro_batches = 16,
                        .schedule = NamedSchedule::one_f_one_b,
                        .remat = kOpen,
                        .precision = precision,
                        .replicas = 4,
                        .optimizer = &kOptimizer};
    const auto most = [&](const Plan& plan) {
      int64_t bytes = 0;
      for (const auto& device : predicted(graph, plan, 16).devices) bytes = std::max(bytes, device.peak_bytes);
      return bytes;
    };
    PlanOptions whole = options;
    whole.shards_optimizer = false;
    options.memory = most(plan(graph, devices("8x meta"), options));
    ASSERT_LT(options.memory, most(plan(graph, devices("8x meta"), whole)));
    const Plan chosen = plan(graph, devices("8x meta"), options);
    EXPECT_TRUE(predicted(graph, chosen, 16).fits);
    EXPECT_TRUE(std::ranges::none_of(chosen.rematerialize, std::identity())) << "there is room for all activations";
  }
}

/// Four replicas of three samples at most are ten samples, not twelve.
TEST(ReplicaPlanner, CutsNoMoreMicroBatchesThanThereAreSamples) {
  const layers::Graph graph = models::transformer_lm(small_gpt());
  PlanOptions options{.batch = 10, .micro_batches = kOpen, .schedule = NamedSchedule::one_f_one_b};
  for (const CountChoice replicas : {CountChoice(4), CountChoice(kOpen)}) {
    options.replicas = replicas;
    const Plan plan = parallel::plan(graph, devices("8x h100"), options);
    EXPECT_LE(plan.micro_batches, 10);
    EXPECT_TRUE(predicted(graph, plan, 10).fits);
  }
}

TEST(ReplicaPlanner, EndsInTimeWithThePlanThatItHas) {
  const layers::Graph graph = models::transformer_lm(small_gpt());
  int plans = 0, trials = 0;
  PlanOptions options{.batch = 64, .micro_batches = kOpen, .schedule = {kOpen}, .remat = kOpen, .replicas = kOpen, .search_seconds = 1e-6};
  options.tried = [&](const ReplicaTrial& trial) {
    ++trials;
    plans += !trial.is_bound;
  };
  const Plan plan = parallel::plan(graph, devices("8x h100"), options);
  EXPECT_TRUE(plan.is_out_of_time);
  EXPECT_TRUE(predicted(graph, plan, 64).fits);
  EXPECT_EQ(trials, 4);
  EXPECT_EQ(plans, 1) << "the time was over for all others";
}

TEST(ReplicaPlanner, KeepsFoldBlocks) {
  const layers::Graph graph = models::transformer_lm(small_gpt());
  PlanOptions options{.batch = 24, .micro_batches = 12, .replicas = kOpen, .fold_blocks = 3};
  const Plan plan = parallel::plan(graph, devices("12x h100"), options);
  EXPECT_EQ(plan.replication.fold_blocks, 3);
  EXPECT_TRUE(plan.replication.replicas == 3 || plan.replication.replicas == 1) << plan.replication.replicas;
}

TEST(ReplicaPlanner, RefusesWhatNoNumberOfReplicasCanDo) {
  const layers::Graph graph = models::transformer_lm(small_gpt());
  PlanOptions options{.batch = 8, .memory = 0, .replicas = kOpen};
  expect_error<UsageError>([&] { parallel::plan(graph, devices("4x meta"), options); }, {"PlanOptions::memory"});
}

}  // namespace
}  // namespace sluice::parallel
