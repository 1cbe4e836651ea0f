#include "bench/training_step.h"

#include "autograd/backward.h"
#include "bench/schedule_word.h"
#include "core/machine_limits.h"
#include "core/ops/copy.h"
#include "layers/tables.h"

namespace sluice::bench {

namespace {

std::string model_name(const StepChoice& choice) {
  if (choice.model == "gpt") return "";
  if (choice.model != "amoebanet") return choice.model + " ";
  const auto& [layers, filters, image_size] = choice.image;
  return "amoebanet(" + std::to_string(layers) + ", " + std::to_string(filters) + ") " + std::to_string(image_size) + "px ";
}

}  // namespace

std::string StepChoice::name() const {
  if (bare) return model_name(*this) + "bare loop batch=" + std::to_string(batch);
  return model_name(*this) + (device == "cpu" ? "" : device + " ") + "K=" + std::to_string(devices) +
         " M=" + std::to_string(micro_batches) + join(" ", schedule, " remat=", name_of(remat), " threads=", threads) +
         " batch=" + std::to_string(batch) + (precision == "f32" ? "" : " " + precision) + (cuda_graphs ? " graphs" : "");
}

/// The same model and update with nothing of `parallel`: what the executor's cost is measured against.
struct TrainingStep::Bare {
  Bare(const StepModel& of, int threads) : model(of), device(make_device("cpu:0", {.threads = threads})), tables(device, DType::f32) {
    for (const auto& description : model.graph.parameters()) {
      const Shape& shape = description.spec.shape;
      Tensor value = empty(shape, DType::f32, device);
      initialize(value, description.spec.initializer, random_key(0, description.name));
      parameters.push_back(value);
      states.emplace_back();
      for (const OptimizerState& state : model.optimizer->states_of(shape)) states.back().push_back(zeros(state.shape, DType::f32, device));
    }
  }

  /// Summed weight of the targets: the loss node's inputs that are the graph's own.
  double loss_weight(const Batch& batch) const {
    const auto& node = model.graph.nodes()[model.graph.loss_node()];
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (model.graph.node_of(node.inputs[i]) < 0) inputs[i] = batch.load(model.graph.inputs()[node.inputs[i]].name, 0, batch.samples);
    return node.module->loss_weight(inputs, batch.samples);
  }

  double run(const Batch& batch) {
    std::vector<Var> leaves;
    for (const auto& parameter : parameters) leaves.push_back(Var::parameter(parameter));
    std::vector<Var> values;
    for (const auto& input : model.graph.inputs()) values.emplace_back(batch.load(input.name, 0, batch.samples).charged_to(device));
    const double loss_scale = 1.0 / loss_weight(batch);
    for (const auto& node : model.graph.nodes()) {
      layers::Call call;
      call.tables = tables.of(*node.module);
      call.loss_scale = loss_scale;
      for (int value : node.inputs) call.inputs.push_back(values[value]);
      for (int parameter : node.parameters) call.parameters.push_back(leaves[parameter]);
      values.push_back(node.module->forward(call));
    }
    const Var loss = values.back();
    values.clear();
    const auto gradients = sluice::gradients(loss, full(loss.shape(), 1, DType::f32, device), leaves);
    ++step;
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i < parameters.size(); ++i) slots.push_back({parameters[i], gradients[i], states[i]});
    model.optimizer->apply(slots, {model.optimizer->rate.at(step), step});
    return loss.value().item();
  }

  const StepModel& model;
  DevicePtr device;
  layers::Tables tables;
  std::vector<Tensor> parameters;
  std::vector<std::vector<Tensor>> states;
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

TrainingStep::TrainingStep(const StepChoice& choice)
    : model_(step_model({choice.model, choice.batch, choice.image, choice.padding, choice.sequence})) {
  if (choice.bare) {
    bare_ = std::make_unique<Bare>(model_, choice.threads);
    return;
  }
  const parallel::PlanOptions options{.batch = choice.batch,
                                      .micro_batches = choice.micro_batches,
                                      .schedule = schedule_of_word(choice.schedule),
                                      .partition = choice.partition,
                                      .remat = choice.remat,
                                      .precision = precision_named(choice.precision)};
  const parallel::TrainerOptions how{.cuda_graphs = choice.cuda_graphs ? parallel::CudaGraphs::on : parallel::CudaGraphs::off,
                                     .tuning = choice.tuning};
  parallel::Plan plan = parallel::plan(model_.graph, stages(choice), options);
  const parallel::Partition nodes{std::vector<int>(model_.graph.nodes().size(), 1)};
  if (choice.by_node) plan.partition = parallel::SegmentedPartition(nodes, plan.partition.stage_sizes());
  trainer_ = std::make_unique<parallel::Trainer>(model_.graph, plan, *model_.optimizer, how);
}

TrainingStep::~TrainingStep() = default;

double TrainingStep::run() {
  double loss = 0;
  for (const Batch& batch : model_.batches) loss = bare_ ? bare_->run(batch) : trainer_->step(batch).loss;
  return loss;
}

}  // namespace sluice::bench
