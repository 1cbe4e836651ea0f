#include "cli/build.h"

#include <algorithm>
#include <thread>

#include "cli/choice_words.h"
#include "cli/corpus.h"
#include "cli/list_text.h"
#include "cli/messages.h"
#include "cli/search_line.h"
#include "cli/signals.h"
#include "core/file/file.h"
#include "core/machine_limits.h"
#include "core/suggestion.h"
#include "data/loader.h"
#include "models/amoebanet.h"
#include "models/resnet.h"
#include "models/translation.h"
#include "models/unet.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/job_devices.h"
#include "parallel/schedule/csv.h"

namespace sluice::cli {

namespace {

/// Measures the nodes on the plan's own devices.
parallel::NodeTimer measured_times(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const Settings& settings,
                                   const Optimizer& optimizer) {
  require(devices[0]->kind() != DeviceKind::meta, "pipeline.costs: measured needs cpu or cuda devices, got ", devices[0]->name(),
          "; use counted for devices that are not here");
  return [&graph, &optimizer, devices, settings](int64_t samples, const DevicePtr& device) {
    require(!device->options().elsewhere, "pipeline.costs: measured needs GPUs of one kind for all ranks, as one measures for all, and ",
            device->name(), " of another rank is of another kind; use counted");
    const parallel::ProfileOptions options{.devices = static_cast<int>(devices.size()),
                                           .tuning = choice_at(settings, "pipeline.tune", kTuningWords),
                                           .cache = parallel::profile_cache_file()};
    return parallel::profile_nodes(graph, synthetic_batch(settings, samples), samples, device, precision_of(settings), optimizer, options);
  };
}

/// What all transformers have.
template <class Options>
Options transformer_options(const Settings& settings) {
  Options options;
  options.dim = settings.integer("model.dim");
  options.heads = settings.integer("model.heads");
  options.ffn = settings.integer("model.ffn");
  options.vocab = settings.integer("model.vocab");
  options.dropout = settings.number("model.dropout");
  options.positions = choice_at(settings, "model.positions", kPositionWords);
  options.norm = choice_at(settings, "model.norm", kNormWords);
  options.activation = choice_at(settings, "model.activation", kActivationWords);
  options.label_smoothing = settings.number("model.label_smoothing");
  return options;
}

layers::Graph build_transformer(const Settings& settings) {
  auto options = transformer_options<models::TransformerOptions>(settings);
  options.layers = settings.integer("model.layers");
  options.context = settings.integer("model.context");
  options.tied_embeddings = settings.flag("model.tied_embeddings");
  return models::transformer_lm(options);
}

layers::Graph build_translation(const Settings& settings) {
  const auto layers_at = [&](const char* key) {
    const int64_t layers = settings.integer(key);
    return layers > 0 ? layers : settings.integer("model.layers");
  };
  auto options = transformer_options<models::TranslationOptions>(settings);
  options.encoder_layers = layers_at("model.encoder_layers");
  options.decoder_layers = layers_at("model.decoder_layers");
  options.head_width = settings.integer("model.head_width");
  options.source_context = settings.integer("model.source_context");
  options.target_context = settings.integer("model.target_context");
  options.shared_embeddings = choice_at(settings, "model.shared_embeddings", kSharingWords);
  options.scale_initialization = settings.flag("model.scale_initialization");
  options.logit_clip = settings.number("model.logit_clip");
  return models::translation_model(options);
}

layers::Graph build_amoebanet(const Settings& settings) {
  models::AmoebaNetOptions options;
  if (settings.text("model.name") == "amoebanet-b") options.genotype = models::AmoebaNet::b;
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

layers::Graph build_resnet(const Settings& settings) {
  models::ResNetOptions options;
  if (settings.text("model.name") == "resnet101") options.blocks = {3, 4, 23, 3};
  options.filters = settings.integer("model.filters");
  options.classes = settings.integer("model.classes");
  options.image_size = settings.integer("model.image_size");
  options.channels = settings.integer("model.channels");
  options.squeeze_excitation = settings.flag("model.squeeze_excitation");
  options.dropout = settings.number("model.dropout");
  options.label_smoothing = settings.number("model.label_smoothing");
  return models::resnet(options);
}

layers::Graph build_unet(const Settings& settings) {
  models::UNetOptions options;
  options.depth = settings.integer("model.depth");
  options.convolutions = settings.integer("model.convolutions");
  options.filters = settings.integer("model.filters");
  options.classes = settings.integer("model.classes");
  options.image_size = settings.integer("model.image_size");
  options.channels = settings.integer("model.channels");
  options.dropout = settings.number("model.dropout");
  options.label_smoothing = settings.number("model.label_smoothing");
  return models::unet(options);
}

ModelKind model_kind(const Settings& settings) { return choice_at(settings, "model.name", kModelWords); }

}  // namespace

Batch synthetic_batch(Settings settings, int64_t samples) {
  settings.set("data.kind=synthetic");
  settings.set(join("data.train_samples=", std::max(samples, settings.integer("data.train_samples"))));
  const Corpus corpus = load_corpus(settings);
  if (corpus.parallel.dataset) return corpus.parallel.dataset->longest_batch(samples);
  return data::Loader(corpus.dataset, {.batch = samples, .threads = 0}).at(0);
}

bool is_image_model(const Settings& settings) {
  return std::ranges::find(kImageModelKinds, model_kind(settings)) != kImageModelKinds.end();
}

bool is_pixel_model(const Settings& settings) { return model_kind(settings) == ModelKind::unet; }

bool is_translation_model(const Settings& settings) { return model_kind(settings) == ModelKind::translation; }

int64_t tokens_per_sample(const Settings& settings) {
  if (is_image_model(settings)) return 1;
  if (is_translation_model(settings)) return settings.integer("model.source_context") + settings.integer("model.target_context");
  return settings.integer("model.context");
}

namespace {

layers::Graph build_model(const Settings& settings) {
  switch (model_kind(settings)) {
    case ModelKind::language_model:
      return build_transformer(settings);
    case ModelKind::translation:
      return build_translation(settings);
    case ModelKind::amoebanet:
      return build_amoebanet(settings);
    case ModelKind::resnet:
      return build_resnet(settings);
    case ModelKind::unet:
      return build_unet(settings);
  }
  throw UsageError("model.name: is of no kind that can be built");
}

}  // namespace

layers::Graph build_graph(const Settings& settings) {
  layers::Graph graph = build_model(settings);
  for (const auto& pattern : settings.texts("train.freeze")) {
    try {
      graph.freeze(pattern);
    } catch (const UsageError& error) {
      throw UsageError(join("train.freeze: ", error.what()));
    }
  }
  return graph;
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
  optimizer->rate.kind = rate_kind_named(settings.text("optimizer.schedule"));
  optimizer->rate.warmup_steps = settings.integer("optimizer.warmup");
  optimizer->rate.total_steps = total_steps > 0 ? total_steps : settings.integer("train.steps");
  optimizer->rate.minimum = settings.number("optimizer.minimum_lr");
  optimizer->rate.decay = settings.number("optimizer.decay");
  optimizer->rate.decay_steps = settings.integer("optimizer.decay_steps");
  optimizer->rate.staircase = settings.flag("optimizer.staircase");
  require(optimizer->rate.minimum <= options.lr, "optimizer.minimum_lr: needs at most optimizer.lr = ", options.lr, ", got ",
          optimizer->rate.minimum);
  optimizer->rate.validate();
  optimizer->ema = settings.number("optimizer.ema");
  return optimizer;
}

std::vector<DevicePtr> build_devices(const Settings& settings, parallel::Group* ranks) {
  Device::Options options;
  const int64_t memory = settings.integer("pipeline.memory");
  options.budget_bytes = memory > 0 ? memory : kUnlimited;
  options.threads = static_cast<int>(settings.integer("pipeline.threads"));
  options.allow_tf32 = precision_of(settings) == Precision::tf32;
  const std::string names = list_text(settings.texts("pipeline.devices"), ",");
  DescribedOptions described{precision_of(settings)};
  if (const std::string& link = settings.text("pipeline.link"); !link.empty()) described.link = describe_link(link);
  described.devices_of_host = static_cast<int>(settings.integer("pipeline.host_devices"));
  if (const std::string& link = settings.text("pipeline.host_link"); !link.empty()) described.host_link = describe_link(link);
  return parallel::devices_of_job(names, options, described, ranks);
}

namespace {

/// A number >= 1, which "auto" leaves open.
parallel::CountChoice count_choice(const Settings& settings, std::string_view key) {
  if (settings.is_text(key)) return parallel::kOpen;
  return static_cast<int>(settings.integer(key));
}

parallel::ScheduleChoice schedule_choice(const Settings& settings) {
  const std::string& word = settings.text("pipeline.schedule");
  if (word.ends_with(".csv")) return parallel::parse_schedule_csv(read_file(word), word);
  const auto virtual_stages = count_choice(settings, "pipeline.virtual_stages");
  if (word == "auto") return {parallel::kOpen, virtual_stages};
  return {parallel::schedule_named(word), virtual_stages};
}

parallel::PartitionChoice partition_choice(const Settings& settings) {
  if (settings.is_text("pipeline.partition")) return choice_at(settings, "pipeline.partition", kPartitionWords);
  parallel::Partition given;
  for (const int64_t nodes : settings.integers("pipeline.partition")) {
    require(1 <= nodes && nodes <= INT32_MAX, "pipeline.partition: needs at least one node a stage, got ", nodes);
    given.sizes.push_back(static_cast<int>(nodes));
  }
  return given;
}

parallel::RematChoice remat_choice(const layers::Graph& graph, const Settings& settings) {
  std::vector<std::string> names = settings.texts("pipeline.remat"), nodes, known = words_of(kRematWords);
  if (names.size() == 1)
    if (const auto choice = choice_of(kRematWords, names[0])) return *choice;
  for (const auto& node : graph.nodes()) nodes.push_back(node.name);
  known.insert(known.end(), nodes.begin(), nodes.end());
  for (const auto& name : names)
    if (std::ranges::find(nodes, name) == nodes.end())
      throw UsageError(join("pipeline.remat: needs none, full, auto or names of nodes, got '", name, "'", suggestion(name, known)));
  return parallel::RematNodes{std::move(names)};
}

}  // namespace

parallel::PlanOptions plan_options(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer) {
  return {.batch = settings.integer("train.batch"),
          .micro_batches = count_choice(settings, "pipeline.micro_batches"),
          .schedule = schedule_choice(settings),
          .partition = partition_choice(settings),
          .remat = remat_choice(graph, settings),
          .precision = precision_of(settings),
          .replicas = count_choice(settings, "pipeline.replicas"),
          .replica_devices = choice_at(settings, "pipeline.replica_devices", kReplicaDevicesWords),
          .fold_blocks = static_cast<int>(settings.integer("pipeline.fold_blocks")),
          .shards_optimizer = settings.flag("pipeline.shard_optimizer"),
          .optimizer = &optimizer,
          .search_seconds = settings.number("pipeline.search_seconds"),
          .progress = [line = std::make_shared<SearchLine>(stderr)](const parallel::SearchProgress& progress) { line->show(progress); }};
}

parallel::PlanOptions plan_options_on(const std::vector<DevicePtr>& devices, const layers::Graph& graph, const Settings& settings,
                                      const Optimizer& optimizer) {
  parallel::PlanOptions options = plan_options(graph, settings, optimizer);
  if (settings.text("pipeline.costs") == "measured") options.times = measured_times(graph, devices, settings, optimizer);
  return options;
}

namespace {

void note_what_interleaves_nothing(const Settings& settings) {
  const bool has_one_stage = !settings.is_text("pipeline.virtual_stages") && settings.integer("pipeline.virtual_stages") == 1;
  if (settings.text("pipeline.schedule") == "interleaved" && has_one_stage)
    note("pipeline.schedule: interleaved with one stage a device is 1f1b; set pipeline.virtual_stages to 2 or more, or to auto");
}

}  // namespace

parallel::Plan build_plan(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer, parallel::Group* ranks,
                          std::vector<parallel::ReplicaTrial>* trials) {
  const auto devices = build_devices(settings, ranks);
  note_what_interleaves_nothing(settings);
  return parallel::planned_by_root(ranks, devices, [&] {
    parallel::PlanOptions options = plan_options_on(devices, graph, settings, optimizer);
    if (trials) options.tried = [trials](const parallel::ReplicaTrial& trial) { trials->push_back(trial); };
    return parallel::plan(graph, devices, options);
  });
}

parallel::Plan build_evaluation_plan(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer) {
  Settings plain = settings;
  const int64_t micro_batches = settings.integer("pipeline.micro_batches");
  plain.set("pipeline.schedule=gpipe");
  plain.set("pipeline.virtual_stages=1");
  plain.set(join("pipeline.micro_batches=", micro_batches > 0 ? micro_batches : 1));
  plain.set("pipeline.costs=counted");
  plain.set("pipeline.remat=none");
  const int64_t devices = static_cast<int64_t>(build_devices(settings).size());
  if (settings.is_text("pipeline.replicas") ||
      devices % settings.integer("pipeline.replicas") != 0) {  // open, or fewer devices than trained it
    plain.set("pipeline.replicas=1");
    plain.set("pipeline.fold_blocks=1");
  }
  if (!plain.is_text("pipeline.partition") &&
      static_cast<int64_t>(plain.integers("pipeline.partition").size()) != devices / plain.integer("pipeline.replicas"))
    plain.set("pipeline.partition=auto");
  return build_plan(graph, plain, optimizer);
}

parallel::TrainerOptions build_trainer_options(const Settings& settings) {
  parallel::TrainerOptions options;
  options.seed = static_cast<uint64_t>(settings.integer("train.seed"));
  options.clip = settings.number("optimizer.clip");
  options.timeout_seconds = settings.number("pipeline.timeout");
  options.cuda_graphs = choice_at(settings, "pipeline.cuda_graphs", kCudaGraphsWords);
  options.tuning = choice_at(settings, "pipeline.tune", kTuningWords);
  options.allow_other_hardware = settings.flag("pipeline.allow_other_hardware");
  options.stochastic_rounding = settings.flag("train.stochastic_rounding");
  options.on_nonfinite = choice_at(settings, "train.on_nonfinite", kOnNonfiniteWords);
  return options;
}

parallel::Replanner build_replanner(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer,
                                    const std::vector<DeviceSpeed>& speeds) {
  const bool is_one = !settings.is_text("pipeline.replicas") && settings.integer("pipeline.replicas") == 1;
  require(!settings.flag("pipeline.replan") || is_one, "pipeline.replan: needs pipeline.replicas = 1, got ",
          toml_text(settings.value("pipeline.replicas")),
          ": plans of several replicas are not weighed against each other yet; set it to false");
  auto options = plan_options(graph, settings, optimizer);
  options.progress = [show = options.progress](const parallel::SearchProgress& progress) {
    require<parallel::StoppedError>(caught_signal() == 0, "stopped by a signal");
    show(progress);
  };
  return {std::move(options), speeds, settings.flag("pipeline.replan"), is_image_model(settings)};
}

Precision precision_of(const Settings& settings) { return precision_named(settings.text("train.precision")); }

double peak_flops_of(const parallel::Plan& plan, const std::vector<DeviceSpeed>& speeds) {
  // Predictions go by the speed in f32, which most operations of a CPU device have; only products are faster in bf16.
  if (plan.devices[0]->kind() == DeviceKind::cpu && plan.precision == Precision::bf16) {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return measured_bf16_peak_flops(std::min(cores, plan.devices[0]->options().threads)) * static_cast<double>(plan.devices.size());
  }
  double sum = 0;
  for (const DeviceSpeed& speed : speeds) sum += speed.flops_per_second;
  return sum;
}

}  // namespace sluice::cli
