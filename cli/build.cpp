#include "cli/build.h"

#include <algorithm>
#include <thread>

#include "cli/list_text.h"
#include "core/gpu_speed.h"
#include "core/machine_limits.h"
#include "models/amoebanet.h"
#include "models/transformer.h"

namespace sluice::cli {

namespace {

void refuse_what_is_not_here(const Settings& settings) {
  require(settings.integer("pipeline.virtual_stages") == 1,
          "pipeline.virtual_stages: more than 1 is not part of this version of Sluice; use 1");
}

parallel::PlanOptions plan_options(const Settings& settings) {
  parallel::PlanOptions options;
  options.batch = settings.integer("train.batch");
  options.micro_batches = static_cast<int>(settings.integer("pipeline.micro_batches"));
  options.schedule = settings.text("pipeline.schedule");
  options.precision = precision_of(settings);
  if (settings.is_text("pipeline.partition")) {
    options.partition = settings.text("pipeline.partition");
  } else {
    options.partition = "list";
    for (const int64_t nodes : settings.integers("pipeline.partition")) {
      require(1 <= nodes && nodes <= INT32_MAX, "pipeline.partition: needs at least one node a stage, got ", nodes);
      options.sizes.push_back(static_cast<int>(nodes));
    }
  }
  options.remat_nodes = settings.texts("pipeline.remat");
  const bool named = options.remat_nodes == std::vector<std::string>{"none"} || options.remat_nodes == std::vector<std::string>{"full"};
  options.remat = named ? options.remat_nodes[0] : "list";
  return options;
}

layers::Graph build_transformer(const Settings& settings) {
  models::TransformerOptions options;
  options.layers = settings.integer("model.layers");
  options.dim = settings.integer("model.dim");
  options.heads = settings.integer("model.heads");
  options.ffn = settings.integer("model.ffn");
  options.vocab = settings.integer("model.vocab");
  options.context = settings.integer("model.context");
  options.dropout = settings.number("model.dropout");
  options.tied_embeddings = settings.flag("model.tied_embeddings");
  options.positions = settings.text("model.positions");
  options.norm = settings.text("model.norm");
  options.activation = settings.text("model.activation");
  options.label_smoothing = settings.number("model.label_smoothing");
  return models::transformer_lm(options);
}

layers::Graph build_amoebanet(const Settings& settings) {
  models::AmoebaNetOptions options;
  options.genotype = settings.text("model.name").substr(std::string("amoebanet-").size());
  options.layers = settings.integer("model.layers");
  options.filters = settings.integer("model.filters");
  options.classes = settings.integer("model.classes");
  options.image_size = settings.integer("model.image_size");
  options.channels = settings.integer("model.channels");
  options.aux_head = settings.flag("model.aux_head");
  options.drop_path_keep = settings.number("model.drop_path_keep");
  const int64_t steps = settings.integer("model.drop_path_steps");
  options.drop_path_steps = steps > 0 ? steps : settings.integer("train.steps");
  options.dropout = settings.number("model.dropout");
  options.label_smoothing = settings.number("model.label_smoothing");
  return models::amoebanet(options);
}

}  // namespace

bool is_image_model(const Settings& settings) { return settings.text("model.name").starts_with("amoebanet-"); }

layers::Graph build_graph(const Settings& settings) {
  refuse_what_is_not_here(settings);
  return is_image_model(settings) ? build_amoebanet(settings) : build_transformer(settings);
}

std::unique_ptr<Optimizer> build_optimizer(const Settings& settings) {
  OptimizerOptions options;
  options.lr = settings.number("optimizer.lr");
  options.momentum = settings.number("optimizer.momentum");
  options.average = settings.number("optimizer.average");
  options.beta1 = settings.number("optimizer.beta1");
  options.beta2 = settings.number("optimizer.beta2");
  options.epsilon = settings.number("optimizer.epsilon");
  options.weight_decay = settings.number("optimizer.weight_decay");
  auto optimizer = make_optimizer(settings.text("optimizer.name"), options);
  const int64_t total_steps = settings.integer("optimizer.total_steps");
  optimizer->rate.base = options.lr;
  optimizer->rate.kind = settings.text("optimizer.schedule");
  optimizer->rate.warmup_steps = settings.integer("optimizer.warmup");
  optimizer->rate.total_steps = total_steps > 0 ? total_steps : settings.integer("train.steps");
  optimizer->rate.minimum = settings.number("optimizer.minimum_lr");
  optimizer->rate.decay = settings.number("optimizer.decay");
  optimizer->rate.decay_steps = settings.integer("optimizer.decay_steps");
  optimizer->rate.staircase = settings.flag("optimizer.staircase");
  optimizer->rate.validate();
  return optimizer;
}

std::vector<DevicePtr> build_devices(const Settings& settings) {
  Device::Options options;
  const int64_t memory = settings.integer("pipeline.memory");
  options.budget_bytes = memory > 0 ? memory : kUnlimited;
  options.threads = static_cast<int>(settings.integer("pipeline.threads"));
  options.allow_tf32 = precision_of(settings) == Precision::tf32;
  const std::string names = list_text(settings.texts("pipeline.devices"), ",");
  if (names.find("h200") != names.npos) options.speed = gpu_speed(h200(), precision_of(settings));
  return devices(names, options);
}

parallel::Plan build_plan(const layers::Graph& graph, const Settings& settings) {
  return parallel::plan(graph, build_devices(settings), plan_options(settings));
}

parallel::TrainerOptions build_trainer_options(const Settings& settings) {
  parallel::TrainerOptions options;
  options.seed = static_cast<uint64_t>(settings.integer("train.seed"));
  options.clip = settings.number("optimizer.clip");
  options.timeout_seconds = settings.number("pipeline.timeout");
  options.stochastic_rounding = settings.flag("train.stochastic_rounding");
  return options;
}

Precision precision_of(const Settings& settings) { return precision_named(settings.text("train.precision")); }

DeviceSpeed speed_of(const std::vector<DevicePtr>& devices, Precision precision) {
  if (devices[0]->kind() == DeviceKind::meta) return devices[0]->options().speed;
  if (devices[0]->kind() == DeviceKind::cuda) return gpu_speed(describe_gpu(devices[0]->index()), precision);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = std::min(cores, devices[0]->options().threads);
  return {measured_peak_flops(threads), measured_bandwidth()};
}

}  // namespace sluice::cli
