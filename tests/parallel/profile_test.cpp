#include "parallel/plan/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/file/file.h"
#include "parallel/plan.h"
#include "parallel/plan/node_count.h"
#include "parallel/plan/node_times_cache.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

const AdamW kOptimizer({.lr = 1e-2});

DevicePtr meta() { return make_device("meta:0"); }

TEST(Profile, MeasuresEveryNodeOfModelsWithSkipsAndStatistics) {
  const auto check = [](const layers::Graph& graph, const Batch& batch, int devices) {
    const auto times =
        profile_nodes(graph, batch, 2, make_device("cpu:0"), Precision::f32, kOptimizer, {.repetitions = 2, .devices = devices});
    ASSERT_EQ(times.size(), graph.nodes().size());
    for (size_t node = 0; node < times.size(); ++node) {
      EXPECT_GT(times[node].forward, 0) << graph.nodes()[node].name;
      EXPECT_GT(times[node].recompute, 0) << graph.nodes()[node].name;
      EXPECT_LT(times[node].backward, 10) << graph.nodes()[node].name;
      EXPECT_GE(times[node].crowding, 0) << graph.nodes()[node].name;
      EXPECT_LT(times[node].crowding, 10) << graph.nodes()[node].name;
      EXPECT_GT(times[node].crowding_bytes, 0) << graph.nodes()[node].name;
      EXPECT_EQ(times[node].step > 0, graph.parameter_count(static_cast<int>(node)) > 0) << graph.nodes()[node].name;
    }
  };
  check(skip_graph(), skip_batch(4, 1), 1);
  check(image_graph(), image_batch(4, 1), 2);
  const auto options = tiny_transformer_options();
  check(models::transformer_lm(options), token_batch(options, 4, 1), 1);
}

TEST(Profile, NodesOfEqualWorkHaveEqualTimes) {
  auto options = tiny_transformer_options();
  options.layers = 3;
  const auto graph = models::transformer_lm(options);
  const auto counts = count_nodes(graph, 2, meta(), Precision::f32, kOptimizer);
  const auto times =
      profile_nodes(graph, token_batch(options, 2, 1), 2, make_device("cpu:0"), Precision::f32, kOptimizer, {.repetitions = 1});
  int equal = 0;
  for (size_t a = 0; a < counts.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (counts[a].work == counts[b].work) {
        ++equal;
        EXPECT_EQ(times[a].forward, times[b].forward);
        EXPECT_EQ(times[a].weight_gradient, times[b].weight_gradient);
      }
  EXPECT_GE(equal, 3) << "the blocks of a Transformer do equal work";
}

TEST(Profile, WithoutTimeForRepetitionsMeasuresEveryKindOfPassOnce) {
  const auto graph = image_graph();
  for (const auto& node : profile_nodes(graph, image_batch(4, 1), 2, make_device("cpu:0"), Precision::f32, kOptimizer,
                                        {.repetitions = 50, .seconds = 0, .devices = 2})) {
    EXPECT_GT(node.forward, 0);
    EXPECT_GT(node.recompute, 0);
    EXPECT_GE(node.backward, 0);
  }
}

/// Of a cache. How long its text is depends on the digits of what was measured.
size_t entries_of(const std::string& cache) { return nlohmann::json::parse(cache).at("times").size(); }

TEST(Profile, ReadsTheCacheInsteadOfTheDevice) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "node-times.json";
  const auto graph = skip_graph();
  const ProfileOptions options{.repetitions = 1, .cache = file};
  const auto measure = [&](int64_t samples) {
    return profile_nodes(graph, skip_batch(4, 1), samples, make_device("cpu:0"), Precision::f32, kOptimizer, options);
  };
  const auto first = measure(2);
  const std::string kept = read_file(file);
  const auto second = measure(2);
  for (size_t node = 0; node < first.size(); ++node) EXPECT_EQ(first[node].forward, second[node].forward);
  EXPECT_EQ(read_file(file), kept);
  measure(4);
  EXPECT_GT(entries_of(read_file(file)), entries_of(kept)) << "other shapes are measured";
}

/// How memory slows a model down is measured of each, also where the nodes' times are those of another one.
TEST(Profile, KnowsTheCrowdingOfTheModelAlone) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "node-times.json";
  models::TransformerOptions layers = sluice::testing::tiny_transformer_options();
  const auto measure = [&](int count) {
    layers.layers = count;
    profile_nodes(models::transformer_lm(layers), sluice::testing::token_batch(layers, 4, 1), 2, make_device("cpu:0"), Precision::f32,
                  kOptimizer, {.repetitions = 1, .cache = file});
    return read_file(file);
  };
  const std::string deep = measure(3), shallow = measure(2);
  EXPECT_EQ(entries_of(shallow), entries_of(deep) + 1);
  EXPECT_EQ(measure(3), shallow);
  EXPECT_EQ(measure(2), shallow);
}

TEST(Profile, RefusesWhatItCannotMeasureWithTheCure) {
  const auto graph = skip_graph();
  const auto measure = [&](const DevicePtr& device, int64_t samples) {
    profile_nodes(graph, skip_batch(2, 1), samples, device, Precision::f32, kOptimizer);
  };
  expect_error<UsageError>([&] { measure(meta(), 2); }, {"needs a cpu or cuda device", "meta:0"});
  expect_error<UsageError>([&] { measure(make_device("cpu:0"), 3); }, {"from 1 to the 2 samples"});
}

TEST(CountedNodes, AddUpToTheStepOfOneDevice) {
  const DeviceSpeed speed{1e9, 1e9};
  auto options = tiny_transformer_options();
  options.tied_embeddings = false;
  const auto graph = models::transformer_lm(options);
  double seconds = 0;
  for (const auto& node : counted_nodes(graph, 4, speed, Precision::f32, kOptimizer)) {
    seconds += node.forward + node.backward + node.step;
    EXPECT_NEAR(node.input_gradient + node.weight_gradient, node.backward, 0.35 * node.backward);
    EXPECT_EQ(node.recompute, node.forward);
  }
  const auto one = plan(graph, {meta()}, {.batch = 4, .schedule = NamedSchedule::gpipe});
  EXPECT_NEAR(seconds, predict(graph, one, kOptimizer, 4, speed).step_seconds, 0.05 * seconds);
}

TEST(NodeTimesCache, TakesADamagedOrForeignFileForAnEmptyOneAndReplacesIt) {
  const NodeTimes times{1, 2, 3, 4, 5, 6};
  for (const std::string text :
       {"", "{\"format\": 1, \"tim", "[]", "\xff\x01", "{\"format\": \"1\"}", "{\"format\": 1, \"times\": [1]}",
        "{\"format\": 1, \"times\": {\"a\": [1, 2]}}", "{\"format\": 1, \"times\": {\"a\": [1, 2, 3, 4, 5, -6]}}"}) {
    const TemporaryFolder folder;
    const auto file = folder.write("times.json", text);
    NodeTimesCache cache(file);
    EXPECT_FALSE(cache.find("work")) << text;
    cache.keep({{"work", times}});
    ASSERT_TRUE(NodeTimesCache(file).find("work")) << text;
    EXPECT_EQ(NodeTimesCache(file).find("work")->step, 6);
    EXPECT_FALSE(NodeTimesCache(file).find("other"));
  }
}

TEST(NodeTimesCache, DoesNotKnowWhatNoNodeTakes) {
  const TemporaryFolder folder;
  const auto file = folder.write("times.json", "");
  NodeTimesCache(file).keep({{"work", {.forward = 0.125}}});
  const std::string text = read_file(file);
  ASSERT_TRUE(NodeTimesCache(file).find("work"));
  for (const char* wrong : {"-0.125", "1e300", "1e40", "null", "\"0.125\"", "[]"}) {
    std::string edited = text;
    folder.write("times.json", edited.replace(edited.find("0.125"), 5, wrong));
    EXPECT_FALSE(NodeTimesCache(file).find("work")) << wrong;
  }
}

TEST(NodeTimesCache, ServesTheProcessWhereTheFileCannotBeWritten) {
  NodeTimesCache none({});
  none.keep({{"work", {.forward = 1}}});
  EXPECT_EQ(none.find("work")->forward, 1);
}

}  // namespace
}  // namespace sluice::parallel
