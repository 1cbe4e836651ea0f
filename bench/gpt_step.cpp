#include "bench/gpt_step.h"

#include "autograd/backward.h"
#include "core/machine_limits.h"

namespace sluice::bench {

namespace {

GptModel model_of(int64_t layers, int64_t dim, int64_t heads, int64_t vocab, int64_t context, int64_t parameters) {
  models::TransformerOptions options;
  options.layers = layers;
  options.dim = dim;
  options.heads = heads;
  options.vocab = vocab;
  options.context = context;
  return {options, parameters};
}

Tensor random_tokens(const Shape& shape, int64_t vocab, uint64_t seed) {
  Tensor x = empty(shape, DType::i32);
  int32_t* data = x.data<int32_t>();
  for (int64_t i = 0; i < x.elements(); ++i)
    data[i] = static_cast<int32_t>(philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(seed), 0})[0] % vocab);
  return x;
}

}  // namespace

Batch GptModel::batch(int64_t samples) const {
  const Shape shape{samples, options.context};
  return batch_of({{"tokens", random_tokens(shape, options.vocab, 1)}, {"targets", random_tokens(shape, options.vocab, 2)}});
}

double GptModel::flops_a_token() const {
  return 6.0 * static_cast<double>(parameters) + 6.0 * static_cast<double>(options.layers * options.dim * options.context);
}

const GptModel& gpt_model(const std::string& name) {
  static const GptModel small = model_of(6, 384, 6, 8192, 256, 13'891'584), gpt2 = model_of(12, 768, 12, 50257, 1024, 124'439'808);
  require<UsageError>(name == "gpt" || name == "gpt2-124m", "model: needs gpt or gpt2-124m, got ", name);
  return name == "gpt" ? small : gpt2;
}

std::string StepChoice::name() const {
  if (bare) return "bare loop batch=" + std::to_string(batch);
  return (model == "gpt" ? "" : model + " ") + (device == "cpu" ? "" : device + " ") + "K=" + std::to_string(devices) +
         " M=" + std::to_string(micro_batches) + " " + schedule + " remat=" + remat + " threads=" + std::to_string(threads) +
         " batch=" + std::to_string(batch) + (precision == "f32" ? "" : " " + precision);
}

/// The same model and update with nothing of `parallel`: what the executor's cost is measured against.
struct GptStep::Bare {
  Bare(const GptModel& model, int threads) : graph(model.graph()), device(make_device("cpu:0", {.threads = threads})) {
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
    call.loss_scale = 1.0 / static_cast<double>(batch.load("targets", 0, batch.samples).elements());
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
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i < parameters.size(); ++i) slots.push_back({parameters[i], gradients[i], states[i]});
    optimizer.apply(slots, {1e-3, step});
    return loss.value().item();
  }

  layers::Graph graph;
  DevicePtr device;
  std::vector<Tensor> parameters;
  std::vector<std::vector<Tensor>> states;
  Adam optimizer{{.lr = 1e-3}};
  int64_t step = 0;
};

namespace {

std::vector<DevicePtr> stages(const StepChoice& choice) {
  const bool on_cpu = choice.device == "cpu";
  std::string names;
  for (int i = 0; i < choice.devices; ++i) names += (i ? "," : "") + (on_cpu ? "cpu:" + std::to_string(i) : choice.device);
  Device::Options options{.threads = choice.threads, .allow_tf32 = choice.precision == "tf32"};
  if (on_cpu) {
    static const DeviceSpeed speed{measured_peak_flops(1), measured_bandwidth()};  // what `auto` balances by
    options.speed = speed;
  }
  return devices(names, options);
}

}  // namespace

GptStep::GptStep(const StepChoice& choice) : batch_(gpt_model(choice.model).batch(choice.batch)) {
  if (choice.bare) {
    bare_ = std::make_unique<Bare>(gpt_model(choice.model), choice.threads);
    return;
  }
  const auto graph = gpt_model(choice.model).graph();
  const parallel::PlanOptions options{.batch = choice.batch,
                                      .micro_batches = choice.micro_batches,
                                      .schedule = choice.schedule,
                                      .remat = choice.remat,
                                      .precision = precision_named(choice.precision)};
  trainer_ = std::make_unique<parallel::Trainer>(graph, parallel::plan(graph, stages(choice), options), Adam({.lr = 1e-3}));
}

GptStep::~GptStep() = default;

double GptStep::run() { return bare_ ? bare_->run(batch_) : trainer_->step(batch_).loss; }

}  // namespace sluice::bench
