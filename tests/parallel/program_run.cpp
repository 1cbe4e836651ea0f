#include "tests/parallel/program_run.h"

#include "core/file/hash.h"
#include "parallel/plan.h"

namespace sluice::testing {

using namespace parallel;

namespace {

const AdamW kOptimizer({.lr = 1e-2});

}  // namespace

ProgramRun::ProgramRun(const layers::Graph& graph, Program program, const std::string& kind, double timeout_seconds, Group* group)
    : graph_(graph), program_(std::move(program)), topology_(topology_of(graph)) {
  std::vector<DevicePtr> all;
  for (int i = 0; i < program_.device_count(); ++i) all.push_back(make_device(join(kind, ":", i)));
  const Layout layout{topology_, program_.partition, program_.device_of_stage, program_.rematerialize, program_.device_count(), true};
  executor_ = std::make_unique<Executor>(graph, layout, all, StageOptions{.seed = 5, .optimizer = &kOptimizer}, timeout_seconds,
                                         group ? std::shared_ptr<Group>(std::shared_ptr<Group>(), group) : nullptr);
}

StepAnswer ProgramRun::step(const Batch& batch) {
  RunContext context;
  context.batch = &batch;
  context.shape = shape_of(graph_, batch);
  context.first_sample = micro_batch_bounds(batch.samples, program_.micro_batches);
  context.loss_scale = 1 / static_cast<double>(batch.samples);
  const RunResult result = executor_->run(program_, context, {&kOptimizer, {1e-2, 1}});
  StepAnswer answer{result.loss, result.gradient_norm, {}};
  for (const auto& stage : executor_->stages())
    for (const auto& parameter : stage->parameters()) {
      if (!parameter.owned) continue;
      Hash hash;
      hash.add(parameter.master.data(), static_cast<size_t>(parameter.master.bytes()));
      answer.weights[parameter.index] = hash.text();
    }
  return answer;
}

}  // namespace sluice::testing
