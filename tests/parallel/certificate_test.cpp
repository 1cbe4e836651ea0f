#include "parallel/run/certificate.h"

#include <gtest/gtest.h>

#include "core/build_id.h"
#include "core/cpu/instruction_set.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan.h"
#include "parallel/program/program_codec.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

const Certificate kRoot{.plan = "p", .model = "m", .config = "c", .build = "b", .instruction_set = "avx2", .gpus = "g"};

TEST(Certificate, OfEqualRanksHasNoDifference) { EXPECT_EQ(difference(kRoot, kRoot), ""); }

TEST(Certificate, NamesWhatDiffersWithBothValuesAndTheCure) {
  struct Case {
    std::string Certificate::*field;
    const char* name;
    const char* cure;
  };
  for (const auto& [field, name, cure] :
       {Case{&Certificate::plan, "plan", "start the job again"}, Case{&Certificate::model, "model", "same code of the model"},
        Case{&Certificate::config, "config", "the same config file"},
        Case{&Certificate::settings, "settings", "the same TrainerOptions and optimizer"},
        Case{&Certificate::build, "build", "install the same build on all hosts"},
        Case{&Certificate::instruction_set, "instruction set", "pipeline.allow_other_hardware = true"},
        Case{&Certificate::gpus, "kind of GPU", "pipeline.allow_other_hardware = true"}}) {
    Certificate mine = kRoot;
    mine.*field = "another";
    const std::string words = difference(mine, kRoot);
    for (const std::string& part :
         {join("needs the ", name, " of the root"), join('\'', kRoot.*field, '\''), std::string("'another'"), std::string(cure)})
      EXPECT_NE(words.find(part), std::string::npos) << words << "\n lacks: " << part;
    EXPECT_EQ(words.find(". "), std::string::npos) << "one thing differs";
  }
}

TEST(Certificate, NamesWhatBringsAboutTheOthersFirst) {
  const std::string words = difference({"p2", "m2", "c2", "b2", "avx512", "g2"}, kRoot);
  size_t last = 0;
  for (const char* name : {"the build", "the instruction set", "the kind of GPU", "the config", "the model", "the plan"}) {
    const size_t place = words.find(join("needs ", name));
    ASSERT_NE(place, std::string::npos) << words;
    EXPECT_GE(place, last);
    last = place;
  }
}

TEST(Certificate, AllowsOtherHardwareWhereThatIsAskedFor) {
  Certificate mine = kRoot;
  mine.instruction_set = "avx512";
  mine.gpus = "another";
  EXPECT_EQ(difference(mine, kRoot, true), "");
  mine.build = "another";
  EXPECT_NE(difference(mine, kRoot, true), "");
}

/// What a trainer of two ranks, a replica each, says when the second one has other options or another optimizer.
void expect_refused(const TrainerOptions& other, const Optimizer& other_optimizer, const Optimizer& root_optimizer,
                    std::initializer_list<std::string> words) {
  const auto graph = testing::skip_graph();
  expect_error<UsageError>(
      [&] {
        run_ranks(2, [&](Group& group) {
          const Plan planned =
              plan(graph, devices("cpu:0,cpu:1"),
                   {.batch = 4, .micro_batches = 2, .replicas = 2, .shards_optimizer = !root_optimizer.needs_whole_parameters()});
          TrainerOptions options = group.is_root() ? TrainerOptions{.seed = 1} : other;
          options.timeout_seconds = 60;
          options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
          Trainer trainer(graph, planned, group.is_root() ? root_optimizer : other_optimizer, options);
          trainer.step(testing::skip_batch(4, 1));
        });
      },
      words);
}

void expect_refused(const TrainerOptions& other, const Optimizer& other_optimizer, const std::string& words) {
  expect_refused(other, other_optimizer, SGD({.lr = 0.1}), {words});
}

/// Replicas began with other weights, or followed other gradients, and nobody said so.
TEST(Certificate, RefusesRanksWithOtherSettings) {
  const SGD same({.lr = 0.1});
  expect_refused({.seed = 2}, same, "needs the settings of the root, which is 'seed 1, clip 0, sgd");
  expect_refused({.seed = 1, .clip = 0.5}, same, "got 'seed 1, clip 0.5, sgd");
  expect_refused({.seed = 1, .on_nonfinite = OnNonfinite::skip}, same, "steps skipped that are not finite");
  expect_refused({.seed = 1}, Lion({.lr = 0.1}), "lion with averages of decay 0, beta1 0.9, beta2 0.99, weight_decay 0, state m");
  SGD grouped({.lr = 0.1}), averaged({.lr = 0.1});
  grouped.groups({{"*", {.lr = 0.2}}});
  averaged.ema = 0.9;
  expect_refused({.seed = 1}, grouped, "group '*' with lr 0.2");
  expect_refused({.seed = 1}, averaged, "averages of decay 0.9");
  expect_refused({.seed = 1}, SGD({.lr = 0.2}), "at a learning rate of 0.2");
}

/// Each replica stepped its part of every parameter by its own rule.
TEST(Certificate, RefusesRanksWhoseOptimizersHaveOtherNumbers) {
  const auto expect_both = [](const Optimizer& root, const Optimizer& other, const std::string& of_root, const std::string& got) {
    expect_refused({.seed = 1}, other, root, {of_root + ", ", got + ", "});
  };
  expect_both(SGD({.momentum = 0.9}), SGD({.momentum = 0.8}), "momentum 0.9", "momentum 0.8");
  expect_both(SGD({.momentum = 0.9}), SGD({.momentum = 0.9, .nesterov = true}), "nesterov 0", "nesterov 1");
  expect_both(Adam({}), Adam({.beta1 = 0.8}), "beta1 0.9", "beta1 0.8");
  expect_both(AdamW({}), AdamW({.beta2 = 0.9990001}), "beta2 0.999", "beta2 0.9990001");
  expect_both(AdamW({}), AdamW({.epsilon = 1e-7}), "epsilon 1e-08", "epsilon 1e-07");
  expect_both(AdamW({}), AdamW({.weight_decay = 0.1}), "weight_decay 0.01", "weight_decay 0.1");
  expect_both(RMSProp({}), RMSProp({.average = 0.8}), "average 0.9", "average 0.8");
  expect_both(Lion({}), Lion({.beta2 = 0.9}), "beta2 0.99", "beta2 0.9");
  expect_both(Adafactor({}), Adafactor({.threshold = 2}), "threshold 1", "threshold 2");
}

TEST(Certificate, ArrivesAsItWasSent) {
  const std::string bytes = encode(kRoot);
  EXPECT_EQ(decode_certificate(bytes), kRoot);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(decode_certificate(bytes.substr(0, size)), DataError);
  expect_error<DataError>([] { decode_certificate("SlPr"); }, {"certificate: needs the word 'SlCe'"});
}

Program step_of(const layers::Graph& graph, const char* names, int micro_batches) {
  const Plan planned = plan(graph, devices(names), {.batch = 8, .micro_batches = micro_batches});
  return lower(topology_of(graph), planned.partition.segments(), schedule_of(planned, micro_batches), planned.rematerialize);
}

TEST(Certificate, OfOneProcessIsTheSameEachTimeAndTellsProgramsModelsAndConfigsApart) {
  const auto graph = testing::skip_graph();
  const Certificate one = make_certificate(encode(step_of(graph, "cpu:0,cpu:1", 4)), graph, "lr = 0.1", {});
  EXPECT_EQ(make_certificate(encode(step_of(graph, "cpu:0,cpu:1", 4)), testing::skip_graph(), "lr = 0.1", {}), one);
  EXPECT_NE(make_certificate(encode(step_of(graph, "cpu:0,cpu:1", 2)), graph, "lr = 0.1", {}).plan, one.plan);
  EXPECT_NE(make_certificate(encode(step_of(graph, "cpu:0,cpu:1", 4)), graph, "lr = 0.2", {}).config, one.config);
  EXPECT_NE(make_certificate(encode(step_of(graph, "cpu:0,cpu:1", 4)), testing::image_graph(), "lr = 0.1", {}).model, one.model);
}

TEST(BuildId, NamesVersionCompilerAndProgram) {
  for (const char* part : {"sluice ", ", compiler ", ", program "}) EXPECT_NE(build_id().find(part), std::string::npos) << build_id();
  EXPECT_EQ(build_id().size() - build_id().rfind(' ') - 1, 32u) << "the program's hash: " << build_id();
}

TEST(InstructionSet, NamesSomething) {
  EXPECT_NE(instruction_set(), "");
#if defined(__AVX2__)
  EXPECT_NE(instruction_set().find("avx2"), std::string::npos) << instruction_set();
#endif
}

}  // namespace
}  // namespace sluice::parallel
