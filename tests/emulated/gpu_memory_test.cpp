// Random trainings on emulated GPUs whose budgets are what the plan says, to the byte: cudaMalloc never gives a GPU more. What the host reads of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/ops/concat.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reshape.h"
#include "core/cuda/cuda.h"
#include "core/cuda/launch.h"
#include "emulation.h"
#include "parallel/plan/predict.h"
#include "parallel/trainer.h"
#include "tests/parallel/random_graph.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::Draw;

constexpr int kGpus = 2, kRuns = 36, kSteps = 3, kSamples = 8;

struct Model {
  std::string name;
  layers::Graph graph;
  Batch (*batch)(int64_t samples, uint64_t seed);
  bool takes_bf16 = true;  ///< random graphs join what they compute with float inputs
};

Batch tiny_tokens(int64_t samples, uint64_t seed) {
  return sluice::testing::token_batch(sluice::testing::tiny_transformer_options(), samples, seed);
}

Model random_graph_model(Draw& draw) {
  for (;;) {
    auto random = sluice::testing::random_graph(static_cast<uint64_t>(draw.from(0, 999)));
    if (random.has_shapes) return {random.description, std::move(random.graph), sluice::testing::random_graph_batch, false};
  }
}

Model random_model(Draw& draw) {
  const int number = draw.from(0, 5);
  if (number > 3) return random_graph_model(draw);
  if (number == 0) return {"skips", sluice::testing::skip_graph(), sluice::testing::skip_batch};
  if (number == 1) return {"images", sluice::testing::image_graph(), sluice::testing::image_batch};
  auto options = sluice::testing::tiny_transformer_options();
  options.tied_embeddings = number == 2;
  return {number == 2 ? "tied transformer" : "transformer", models::transformer_lm(options), tiny_tokens};
}

/// A training of one model, whose devices have no byte more than the plan says.
class TightTraining {
 public:
  struct Choice {
    std::string devices = "cuda:0";
    NamedSchedule schedule = NamedSchedule::one_f_one_b;
    Remat remat = Remat::none;
    Precision precision = Precision::f32;
    int micro_batches = 2;
    CudaGraphs graphs = CudaGraphs::off;
  };
  TightTraining(const Model& model, const Choice& choice)
      : model_(model),
        choice_(choice),
        plan_(plan(model.graph, devices(choice.devices),
                   {.batch = kSamples,
                    .micro_batches = choice.micro_batches,
                    .schedule = choice.schedule,
                    .partition = PartitionRule::uniform,
                    .remat = choice.remat,
                    .precision = choice.precision})) {
    const Prediction training = predict(model_.graph, plan_, optimizer_, kSamples, {});
    const Prediction evaluating = predict_evaluation(model_.graph, plan_, optimizer_, kSamples, true);
    for (size_t i = 0; i < plan_.devices.size(); ++i) {
      const int64_t peak = std::max(training.devices[i].peak_bytes, evaluating.devices[i].peak_bytes);
      plan_.devices[i]->set_budget_bytes(peak);
      planned_[plan_.devices[i]->index()] += peak;
    }
  }

  void run() {
    for (const auto& device : plan_.devices) device->cuda().workspace();  // which the real cuBLAS uses, and the emulated one does not
    for (int gpu = 0; gpu < kGpus; ++gpu) emulation::reset_peak_bytes(gpu);
    Trainer trainer(model_.graph, plan_, optimizer_, {.seed = 3, .clip = 0.5, .timeout_seconds = 60, .cuda_graphs = choice_.graphs});
    for (int step = 0; step < kSteps; ++step) {
      trainer.step(model_.batch(kSamples, step));
      trainer.evaluate(model_.batch(kSamples, 77), true);
    }
  }

  int64_t planned(int gpu) const { return planned_[gpu]; }
  /// Then what one device counts may be what another one allocated, and they need not have their peaks at the same time.
  bool shares_gpus() const { return choice_.devices.find("cuda:0", 1) != std::string::npos; }
  std::string text() const {
    return join(model_.name, " on ", choice_.devices, ", ", name_of(choice_.schedule), ", ", name_of(choice_.remat), ", ",
                name_of(choice_.precision), ", ", choice_.micro_batches, " micro-batches",
                choice_.graphs == CudaGraphs::on ? ", graphs" : "");
  }

 private:
  const Model& model_;
  Choice choice_;
  AdamW optimizer_{{.lr = 1e-2}};
  Plan plan_;
  int64_t planned_[kGpus] = {};
};

TightTraining::Choice random_choice(const Model& model, Draw& draw) {
  return {.devices = draw.of<std::string>({"cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:0", "cuda:0,cuda:1,cuda:0"}),
          .schedule = draw.of<NamedSchedule>({NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}),
          .remat = draw.of<Remat>({Remat::none, Remat::full}),
          .precision = model.takes_bf16 && draw.one_in(3) ? Precision::bf16 : Precision::f32,
          .micro_batches = draw.from(1, 4),
          .graphs = draw.one_in(3) ? CudaGraphs::on : CudaGraphs::off};
}

/// As much, where each device has a GPU to itself.
TEST(CudaTrainingMemory, IsNeverMoreThanThePlanSaysAndAsMuchAtThePeakInRandomTrainings) {
  for (int number = 0; number < kRuns; ++number) {
    Draw draw(static_cast<uint64_t>(number));
    const Model model = random_model(draw);
    TightTraining training(model, random_choice(model, draw));
    ASSERT_NO_THROW(training.run()) << training.text();
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      const auto given = static_cast<int64_t>(emulation::peak_bytes(gpu));
      EXPECT_LE(given, training.planned(gpu)) << "GPU " << gpu << ": " << training.text();
      if (training.shares_gpus()) continue;
      EXPECT_EQ(given, training.planned(gpu)) << "GPU " << gpu << ": " << training.text();
    }
  }
}

/// A module from a function of its input.
template <Var (*function)(const Var&)>
class Function : public layers::Module {
 public:
  Var forward(const layers::Call& call) const override { return function(call.inputs[0]); }
};

Var widened(const Var& x) { return concat(std::vector<Var>(512, x), 1); }
Var first_half(const Var& x) { return slice(x, 1, 0, x.shape()[1] / 2); }  // a view, and of one sample a contiguous one
Var squared(const Var& x) { return mul(x, x); }
Var first_four(const Var& x) { return slice(x, 1, 0, 4); }

/// Of skip_batch. Two stages of four nodes; the second one keeps what it gets, half of what the first one made.
layers::Graph sliced_graph() {
  using namespace layers;
  Graph graph;
  Value y = graph.input("image", {6});
  const Value label = graph.input("label", {}, DType::i32);
  y = graph.add("first", Linear(6, 6), y);
  y = graph.add("second", Linear(6, 6), y);
  y = graph.add("wide", Function<widened>(), y);
  y = graph.add("half", Function<first_half>(), y);
  y = graph.add("square", Function<squared>(), y);
  y = graph.add("few", Function<first_four>(), y);
  y = graph.add("logits", Linear(4, 5), y);
  graph.output(y);
  graph.loss(graph.add("loss", CrossEntropy(), {y, label}));
  return graph;
}

// Stages on one GPU hand over memory. Were a part of a tensor handed over, the receiver would hold all of it and count the part.
TEST(CudaTrainingMemory, OfATensorWhosePartCrossesStagesIsNotHeldByTheReceiver) {
  const Model model{"slices", sliced_graph(), sluice::testing::skip_batch};
  for (const NamedSchedule schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b}) {
    TightTraining training(model, {.devices = "cuda:0,cuda:0", .schedule = schedule, .micro_batches = kSamples});
    ASSERT_NO_THROW(training.run()) << training.text();
    EXPECT_LE(static_cast<int64_t>(emulation::peak_bytes(0)), training.planned(0)) << training.text();
  }
}

__global__ void nothing() {}

// What a kernel may have is the GPU's, not a launch's: the other device took away between asking and launching what one had asked for.
TEST(CudaTrainingMemory, SharedByTheThreadsOfABlockIsNeverTakenBackByAnotherDevicesLaunch) {
  constexpr size_t kLarge = size_t{160} << 10, kSmall = size_t{64} << 10;
  const auto gpus = devices("cuda:0,cuda:0");
  gpus[0]->cuda().activate();
  launch(gpus[0]->cuda(), "nothing", {1, 1, kLarge}, nothing);
  launch(gpus[1]->cuda(), "nothing", {1, 1, kSmall}, nothing);
  const cudaLaunchConfig_t config{1, 1, kLarge, gpus[0]->cuda().stream()};
  EXPECT_EQ(cudaLaunchKernelEx(&config, nothing), cudaSuccess);  // as the end of a launch that began before the other
  gpus[0]->synchronize();
}

/// What the host reads of emulated GPUs, and how often it waits for a stream, while something runs.
struct HostCounts {
  uint64_t reads = emulation::host_reads(), waits = emulation::stream_waits();
  HostCounts since() const { return {emulation::host_reads() - reads, emulation::stream_waits() - waits}; }
};

// Losses of all micro-batches, the norm and the faults come in one copy a device, and nothing is read before a step has ended.
TEST(CudaTrainingHost, ReadsOneCopyOfEachDeviceAStep) {
  const auto graph = sluice::testing::skip_graph();
  for (const char* names : {"cuda:0", "cuda:0,cuda:0", "cuda:0,cuda:1"})
    for (const CudaGraphs graphs : {CudaGraphs::off, CudaGraphs::on}) {
      const auto gpus = devices(names);
      Trainer trainer(graph, plan(graph, gpus, {.batch = kSamples, .micro_batches = 4}), AdamW({.lr = 1e-2}),
                      {.seed = 3, .clip = 0.5, .cuda_graphs = graphs, .tuning = Tuning::off});
      for (int step = 0; step < kSteps; ++step) {
        const Batch batch = sluice::testing::skip_batch(kSamples, step);
        const HostCounts before;
        trainer.step(batch);
        const HostCounts counts = before.since();
        EXPECT_EQ(counts.reads, gpus.size()) << names << ", step " << step;
        EXPECT_EQ(counts.waits, gpus.size()) << names << ", step " << step;
      }
    }
}

struct WithoutPeerAccess {
  WithoutPeerAccess() { emulation::set_peer_access(false); }
  ~WithoutPeerAccess() { emulation::set_peer_access(true); }
};

TEST(CudaTrainingTransfers, GiveTheSameAnswerWithoutPeerAccess) {
  const auto hash = [] {
    const auto graph = sluice::testing::skip_graph();
    Trainer trainer(graph, plan(graph, devices("cuda:0,cuda:1"), {.batch = kSamples, .micro_batches = 4}), AdamW({.lr = 1e-2}),
                    {.seed = 3});
    for (int step = 0; step < kSteps; ++step) trainer.step(sluice::testing::skip_batch(kSamples, step));
    return trainer.weights_hash();
  };
  const std::string with_access = hash();
  const WithoutPeerAccess scope;
  EXPECT_EQ(hash(), with_access);
}

}  // namespace
}  // namespace sluice::parallel
