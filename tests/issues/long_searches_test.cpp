#include <gtest/gtest.h>

#include <ctime>
#include <stdexcept>

#include "models/transformer.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kBatch = 64;

layers::Graph deep_model() {
  models::TransformerOptions options;
  options.layers = 40;
  options.dim = 8;
  options.heads = 2;
  options.vocab = 11;
  options.context = 4;
  return models::transformer_lm(options);
}

PlanOptions all_open() { return {.batch = kBatch, .micro_batches = kOpen, .schedule = kOpen, .partition = kOpen, .remat = kOpen}; }

/// Of the processors.
double seconds_since(std::clock_t then) { return static_cast<double>(std::clock() - then) / CLOCKS_PER_SEC; }

TEST(LongSearches, EndWithAPlanWhenTheirTimeIsOverAndClaimNothing) {
  const auto graph = deep_model();
  for (const double limit : {1e-9, 0.05}) {
    SCOPED_TRACE(limit);
    PlanOptions options = all_open();
    options.search_seconds = limit;
    const std::clock_t began = std::clock();
    const Plan chosen = plan(graph, devices("30x meta"), options);
    EXPECT_LT(seconds_since(began), 20) << "many times what one step of the search takes";
    EXPECT_TRUE(chosen.is_out_of_time);
    EXPECT_FALSE(chosen.is_exact);
    const Prediction prediction = predict(graph, chosen, AdamW({}), kBatch, {});
    EXPECT_TRUE(prediction.fits);
    EXPECT_GE(prediction.step_seconds, chosen.bound_seconds);
  }
}

TEST(LongSearches, ThatAreDoneInTimeFindWhatOthersFind) {
  const auto graph = deep_model();
  PlanOptions options = all_open();
  options.micro_batches = 4;
  const Plan without = plan(graph, devices("4x meta"), options);
  options.search_seconds = 1e6;
  const Plan with = plan(graph, devices("4x meta"), options);
  EXPECT_FALSE(with.is_out_of_time);
  EXPECT_EQ(with.partition.segments().sizes, without.partition.segments().sizes);
  EXPECT_EQ(with.partition.segments_of_stage(), without.partition.segments_of_stage());
  EXPECT_EQ(schedule_of(with, 4).devices, schedule_of(without, 4).devices);
  EXPECT_EQ(with.rematerialize, without.rematerialize);
  EXPECT_EQ(with.bound_seconds, without.bound_seconds);
}

TEST(LongSearches, TellHowFarTheyAreAndEndWhenAsked) {
  struct Enough : std::runtime_error {
    using runtime_error::runtime_error;
  };
  PlanOptions options = all_open();
  int reports = 0;
  options.progress = [&](const SearchProgress& progress) {
    EXPECT_FALSE(progress.doing.empty());
    EXPECT_GT(progress.seconds, 0);
    if (++reports == 2) throw Enough(progress.doing);
  };
  EXPECT_THROW(plan(deep_model(), devices("30x meta"), options), Enough);
  EXPECT_EQ(reports, 2);
}

}  // namespace
}  // namespace sluice::parallel
