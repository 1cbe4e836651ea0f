#include "tests/parallel/pipelines.h"

#include <gtest/gtest.h>

#include "parallel/trainer.h"

namespace sluice::testing {

using namespace parallel;

Outcome train(const layers::Graph& graph, const BatchMaker& batch, int device_count, const std::string& schedule,
              const std::string& remat) {
  SCOPED_TRACE(std::to_string(device_count) + " devices, " + schedule + ", remat " + remat);
  std::string names = "cpu:0";
  for (int i = 1; i < device_count; ++i) names += ",cpu:" + std::to_string(i);
  const int64_t samples = batch(0).samples;
  const Plan chosen = plan(graph, devices(names), {.batch = samples, .micro_batches = 4, .schedule = schedule, .remat = remat});
  const AdamW optimizer({.lr = 1e-2});
  Trainer trainer(graph, chosen, optimizer, {.seed = 3, .clip = 1});
  const Prediction prediction = predict(graph, chosen, optimizer, samples, {});
  Outcome outcome;
  for (uint64_t step = 0; step < 3; ++step) outcome.losses.push_back(trainer.step(batch(step)).loss);
  for (size_t i = 0; i < chosen.devices.size(); ++i) EXPECT_EQ(chosen.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes);
  const auto evaluation = trainer.evaluate(batch(kEvaluationSeed), true);
  outcome.losses.push_back(evaluation.loss_sum);
  outcome.outputs = evaluation.output.to_vector();
  outcome.hash = trainer.weights_hash();
  return outcome;
}

void expect_one_answer(const layers::Graph& graph, const BatchMaker& batch) {
  const Outcome first = train(graph, batch, 1, "gpipe", "none");
  for (int device_count : {1, 2, 3, 4})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const char* remat : {"none", "full"}) EXPECT_EQ(train(graph, batch, device_count, schedule, remat), first);
}

}  // namespace sluice::testing
