#include "bench/gpt_step.h"

#include "autograd/backward.h"
#include "core/machine_limits.h"
#include "models/transformer.h"

namespace sluice::bench {

namespace {

models::TransformerOptions gpt_options() {
  models::TransformerOptions options;
  options.layers = 6;
  options.dim = 384;
  options.heads = 6;
  options.vocab = 8192;
  options.context = 256;
  return options;
}

Tensor random_tokens(int64_t samples, uint64_t seed) {
  Tensor x = empty({samples, gpt_options().context}, DType::i32);
  int32_t* data = x.data<int32_t>();
  for (int64_t i = 0; i < x.elements(); ++i)
    data[i] = static_cast<int32_t>(philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(seed), 0})[0] % 8192);
  return x;
}

}  // namespace

layers::Graph gpt_graph() { return models::transformer_lm(gpt_options()); }

Batch gpt_batch(int64_t samples) { return batch_of({{"tokens", random_tokens(samples, 1)}, {"targets", random_tokens(samples, 2)}}); }

std::string StepChoice::name() const {
  if (bare) return "bare loop batch=" + std::to_string(batch);
  return "K=" + std::to_string(devices) + " M=" + std::to_string(micro_batches) + " " + schedule + " remat=" + remat +
         " threads=" + std::to_string(threads) + " batch=" + std::to_string(batch);
}

/// The same model and update with nothing of `parallel`: what the executor's cost is measured against.
struct GptStep::Bare {
  explicit Bare(int threads) : device(make_device("cpu:0", {.threads = threads})) {
    for (const auto& description : graph.parameters()) {
      Tensor value = empty(description.spec.shape, DType::f32, device);
      fill_normal(value, 0, 0.02, random_key(0, description.name));
      parameters.push_back(value);
      states.push_back({zeros(value.shape(), DType::f32, device), zeros(value.shape(), DType::f32, device)});
    }
  }

  double run(const Batch& batch) {
    std::vector<Var> leaves;
    for (const auto& parameter : parameters) leaves.push_back(Var::parameter(parameter));
    std::vector<Var> values;
    for (const auto& input : graph.inputs()) values.emplace_back(batch.load(input.name, 0, batch.samples).charged_to(device));
    layers::Call call;
    call.loss_scale = 1.0 / static_cast<double>(batch.samples * 256);
    for (const auto& node : graph.nodes()) {
      call.inputs.clear();
      call.parameters.clear();
      for (int value : node.inputs) call.inputs.push_back(values[value]);
      for (int parameter : node.parameters) call.parameters.push_back(leaves[parameter]);
      values.push_back(node.module->forward(call));
    }
    call = {};
    const Var loss = values.back();
    values.clear();
    const auto gradients = sluice::gradients(loss, full(loss.shape(), 1, DType::f32, device), leaves);
    ++step;
    for (size_t i = 0; i < parameters.size(); ++i) optimizer.apply(parameters[i], gradients[i], states[i], {1e-3, step});
    return loss.value().item();
  }

  layers::Graph graph = gpt_graph();
  DevicePtr device;
  std::vector<Tensor> parameters;
  std::vector<std::vector<Tensor>> states;
  Adam optimizer{{.lr = 1e-3}};
  int64_t step = 0;
};

GptStep::GptStep(const StepChoice& choice) : choice_(choice), batch_(gpt_batch(choice.batch)) {
  if (choice.bare) {
    bare_ = std::make_unique<Bare>(choice.threads);
    return;
  }
  std::string names;
  for (int i = 0; i < choice.devices; ++i) names += (i ? ",cpu:" : "cpu:") + std::to_string(i);
  const auto graph = gpt_graph();
  static const DeviceSpeed speed{measured_peak_flops(1), measured_bandwidth()};  // what `auto` balances by
  const parallel::PlanOptions options{
      .batch = choice.batch, .micro_batches = choice.micro_batches, .schedule = choice.schedule, .remat = choice.remat};
  trainer_ = std::make_unique<parallel::Trainer>(
      graph, parallel::plan(graph, devices(names, {.threads = choice.threads, .speed = speed}), options), Adam({.lr = 1e-3}));
}

GptStep::~GptStep() = default;

double GptStep::run() { return bare_ ? bare_->run(batch_) : trainer_->step(batch_).loss; }

}  // namespace sluice::bench
