// With replicas, the number of micro-batches was chosen as if their exchange took no time: AmoebaNet-D on two replicas of four H200 over
// PCIe was planned with 32 of them, and takes 11 % longer so than with 8.
#include <gtest/gtest.h>

#include "core/device_description.h"
#include "core/device_speeds.h"
#include "models/amoebanet.h"
#include "models/transformer.h"
#include "parallel/plan.h"

namespace sluice::parallel {
namespace {

const AdamW kOptimizer({.lr = 1e-3});

struct Chosen {
  int micro_batches;
  double seconds;
};

Chosen planned(const layers::Graph& graph, const char* link, int replicas, CountChoice micro_batches, int64_t batch) {
  const auto all = sluice::devices("8x h200", {}, {.link = describe_link(link)});
  PlanOptions options{.batch = batch, .micro_batches = micro_batches, .schedule = NamedSchedule::one_f_one_b, .replicas = replicas};
  options.precision = Precision::bf16, options.optimizer = &kOptimizer;
  const Plan plan = parallel::plan(graph, all, options);
  return {plan.micro_batches, predict(graph, plan, kOptimizer, batch, nominal_speeds_of(all, Precision::bf16)).step_seconds};
}

void expect_no_slower_than_half_as_many(const layers::Graph& graph, const char* link, int replicas, int64_t batch) {
  const Chosen open = planned(graph, link, replicas, kOpen, batch);
  const int half = open.micro_batches / replicas / 2 * replicas;
  if (half < replicas) return;
  EXPECT_LE(open.seconds, planned(graph, link, replicas, half, batch).seconds) << link << ": " << open.micro_batches;
}

TEST(ReplicasWithOpenMicroBatches, HaveNoMoreThanPayBesideTheirExchange) {
  const auto amoebanet = models::amoebanet({.layers = 18, .filters = 416, .dropout = 0});
  const Chosen open = planned(amoebanet, "pcie-5", 2, kOpen, 128);
  EXPECT_LE(open.seconds, planned(amoebanet, "pcie-5", 2, 8, 128).seconds) << open.micro_batches;
  for (const char* link : {"pcie-5", "ethernet-10g"})
    for (const int replicas : {2, 4})
      expect_no_slower_than_half_as_many(models::transformer_lm({.layers = 7, .dim = 512, .heads = 8, .vocab = 5000, .context = 128}), link,
                                         replicas, 64);
}

}  // namespace
}  // namespace sluice::parallel
