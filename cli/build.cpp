#include "cli/build.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "cli/list_text.h"
#include "core/machine_limits.h"
#include "data/synthetic.h"
#include "models/transformer.h"

namespace sluice::cli {

namespace {

void refuse_what_is_not_here(const Settings& settings) {
  const std::string& model = settings.text("model.name");
  require(!model.starts_with("amoebanet"), "model.name: '", model, "' is not part of this version of Sluice; use transformer-lm");
  require(model == "transformer-lm", "model.name: needs transformer-lm, got '", model, "'");
  require(settings.text("train.precision") == "f32", "train.precision: '", settings.text("train.precision"),
          "' is not part of this version of Sluice; use f32");
  require(settings.integer("pipeline.virtual_stages") == 1,
          "pipeline.virtual_stages: more than 1 is not part of this version of Sluice; use 1");
}

parallel::PlanOptions plan_options(const Settings& settings) {
  parallel::PlanOptions options;
  options.batch = settings.integer("train.batch");
  options.micro_batches = static_cast<int>(settings.integer("pipeline.micro_batches"));
  options.schedule = settings.text("pipeline.schedule");
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

std::filesystem::path cache_folder(const Settings& settings) {
  const std::string& chosen = settings.text("data.cache");
  if (!chosen.empty()) return chosen;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "sluice";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "sluice";
  return {};
}

Corpus synthetic_corpus(const Settings& settings) {
  data::SyntheticText::Options options;
  options.vocabulary = settings.integer("model.vocab");
  options.context = settings.integer("model.context");
  options.seed = static_cast<uint64_t>(settings.integer("train.seed"));
  options.train_samples = settings.integer("data.train_samples");
  Corpus corpus;
  corpus.dataset = std::make_shared<data::SyntheticText>(options);
  return corpus;
}

Corpus text_corpus(const Settings& settings, const std::string& serialized_tokenizer) {
  require(!settings.text("data.path").empty(), "data.path: needs a text file or a folder, got none; set it, or data.kind = \"synthetic\"");
  const auto texts = data::find_text(settings.text("data.path"));
  const int64_t vocabulary = settings.integer("model.vocab");
  const auto cache = cache_folder(settings);
  Corpus corpus;
  corpus.tokenizer = serialized_tokenizer.empty() ? data::make_tokenizer(settings.text("data.tokenizer"), vocabulary, texts, cache)
                                                  : data::load_tokenizer(serialized_tokenizer);
  require(corpus.tokenizer->vocabulary() == vocabulary, "model.vocab: needs ", corpus.tokenizer->vocabulary(),
          ", the vocabulary of tokenizer ", corpus.tokenizer->name(), ", got ", vocabulary);
  const data::Tokens tokens = data::tokenize(texts, *corpus.tokenizer, cache);
  int64_t bytes = 0;
  for (const auto& text : texts) bytes += static_cast<int64_t>(text.text.size());
  corpus.bytes_per_token = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, tokens.size()));
  corpus.text = std::make_shared<data::TextDataset>(tokens, settings.integer("model.context"), settings.number("data.validation"),
                                                    static_cast<uint64_t>(settings.integer("train.seed")));
  corpus.dataset = corpus.text;
  return corpus;
}

}  // namespace

layers::Graph build_graph(const Settings& settings) {
  refuse_what_is_not_here(settings);
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

std::unique_ptr<Optimizer> build_optimizer(const Settings& settings) {
  OptimizerOptions options;
  options.lr = settings.number("optimizer.lr");
  options.momentum = settings.number("optimizer.momentum");
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
  optimizer->rate.validate();
  return optimizer;
}

std::vector<DevicePtr> build_devices(const Settings& settings) {
  Device::Options options;
  const int64_t memory = settings.integer("pipeline.memory");
  options.budget_bytes = memory > 0 ? memory : kUnlimited;
  options.threads = static_cast<int>(settings.integer("pipeline.threads"));
  return devices(list_text(settings.texts("pipeline.devices"), ","), options);
}

parallel::Plan build_plan(const layers::Graph& graph, const Settings& settings) {
  return parallel::plan(graph, build_devices(settings), plan_options(settings));
}

DeviceSpeed speed_of(const std::vector<DevicePtr>& devices) {
  if (devices[0]->kind() == DeviceKind::meta) return devices[0]->options().speed;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = std::min(cores, devices[0]->options().threads);
  return {measured_peak_flops(threads), measured_bandwidth()};
}

Corpus load_corpus(const Settings& settings, const std::string& serialized_tokenizer) {
  const std::string& kind = settings.text("data.kind");
  if (kind == "synthetic") return synthetic_corpus(settings);
  require(kind == "text", "data.kind: '", kind, "' is not part of this version of Sluice; use text or synthetic");
  return text_corpus(settings, serialized_tokenizer);
}

}  // namespace sluice::cli
