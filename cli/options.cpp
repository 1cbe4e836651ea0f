#include "cli/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "autograd/optim/optimizer.h"
#include "cli/choice_words.h"
#include "cli/list_text.h"
#include "core/error.h"
#include "parallel/checkpoint.h"
#include "parallel/schedule/named.h"

namespace sluice::cli {

namespace {

using enum OptionType;
constexpr double kAny = std::numeric_limits<double>::max();
constexpr double kSteps = parallel::kMostSteps;
constexpr OptimizerOptions kOptimizer;

/// Texts come as std::string: a bare literal would become a bool in the variant.
std::string word(const char* text) { return text; }

/// The named ones, and the one that is searched.
std::vector<std::string> schedule_words() {
  std::vector<std::string> names;
  for (const auto schedule : parallel::kNamedSchedules) names.emplace_back(name_of(schedule));
  names.emplace_back("auto");
  return names;
}

using Words = std::vector<std::string>;

Words models_of(std::initializer_list<ModelKind> kinds) { return words_of(kModelWords, kinds); }

const Words kLanguageModels = models_of({ModelKind::language_model}), kTranslations = models_of({ModelKind::translation}),
            kAmoebaNets = models_of({ModelKind::amoebanet}), kResNets = models_of({ModelKind::resnet}),
            kUNets = models_of({ModelKind::unet}), kTransformers = models_of({ModelKind::language_model, ModelKind::translation}),
            kImageModels = models_of(kImageModelKinds);

/// What an option has beyond its type and range.
using Trait = std::function<void(Option&)>;
Trait only_where(std::string_view key, Words words) {
  return [=](Option& option) { option.conditions.push_back({key, words}); };
}
Trait of_model(Words names) { return only_where("model.name", std::move(names)); }
Trait of_data(Words kinds) { return only_where("data.kind", std::move(kinds)); }
Trait of_optimizer(Words names) { return only_where("optimizer.name", std::move(names)); }
Trait of_schedule(Words names) { return only_where("optimizer.schedule", std::move(names)); }
Trait open_at(Open ends) {
  return [=](Option& option) { option.open = ends; };
}
void never_empty(Option& option) { option.may_be_empty = false; }
void names_result(Option& option) { option.names_result = true; }
void decides_no_answer(Option& option) { option.decides_answer = false; }

Option with(Option option, const std::vector<Trait>& traits) {
  for (const Trait& trait : traits) trait(option);
  return option;
}

std::vector<Option> make_options() {
  return {
      {"model.name", text, word("transformer-lm"), "the model", words_of(kModelWords)},
      with(Option{"model.layers", integer, int64_t{6}, "blocks of attention and feed-forward; normal cells of AmoebaNet", {}, 1, 100000},
           {of_model(models_of({ModelKind::language_model, ModelKind::translation, ModelKind::amoebanet}))}),
      with(Option{"model.encoder_layers", integer, int64_t{0}, "of translation; 0 = layers", {}, 0, 100000}, {of_model(kTranslations)}),
      with(Option{"model.decoder_layers", integer, int64_t{0}, "of translation; 0 = layers", {}, 0, 100000}, {of_model(kTranslations)}),
      with(Option{"model.dim", integer, int64_t{384}, "width of the residual stream", {}, 1, 1 << 20}, {of_model(kTransformers)}),
      with(Option{"model.heads", integer, int64_t{6}, "attention heads; divides dim, where head_width is 0", {}, 1, 1 << 20},
           {of_model(kTransformers)}),
      with(Option{"model.head_width", integer, int64_t{64}, "of translation's attention heads; 0 = dim / heads", {}, 0, 1 << 20},
           {of_model(kTranslations)}),
      with(Option{"model.ffn", integer, int64_t{0}, "inner width of the feed-forward layers; 0 = 4 * dim", {}, 0, 1 << 24},
           {of_model(kTransformers)}),
      with(Option{"model.vocab", integer, int64_t{256}, "tokens of the vocabulary; 256 for bytes", {}, 2, 1 << 24},
           {of_model(kTransformers)}),
      with(Option{"model.context", integer, int64_t{256}, "tokens of a training sample", {}, 1, 1 << 24}, {of_model(kLanguageModels)}),
      with(Option{"model.source_context", integer, int64_t{128}, "the most tokens of a sentence to translate", {}, 1, 1 << 24},
           {of_model(kTranslations)}),
      with(Option{"model.target_context", integer, int64_t{128}, "the most tokens of a translation", {}, 1, 1 << 24},
           {of_model(kTranslations)}),
      {"model.dropout", number, 0.0, "share of activations dropped in training", {}, 0, 0.999},
      with(Option{"model.tied_embeddings", boolean, true, "the output projection is the token embedding"}, {of_model(kLanguageModels)}),
      with(Option{"model.shared_embeddings", text, word("all"),
                  "all: source, target and output projection have one table; target: the last two; none", words_of(kSharingWords)},
           {of_model(kTranslations)}),
      with(Option{"model.scale_initialization", boolean, true,
                  "weights out of translation's feed-forward layers start divided by the number of layers"},
           {of_model(kTranslations)}),
      with(Option{"model.logit_clip", number, 0.0, "where logits of translation are cut off; 0 = nowhere", {}, 0, kAny},
           {of_model(kTranslations)}),
      with(Option{"model.positions", text, word("learned"), "position encoding", words_of(kPositionWords)}, {of_model(kTransformers)}),
      with(Option{"model.norm", text, word("layernorm"), "normalization", words_of(kNormWords)}, {of_model(kTransformers)}),
      with(Option{"model.activation", text, word("gelu_tanh"), "of the feed-forward layers", words_of(kActivationWords)},
           {of_model(kTransformers)}),
      with(Option{"model.filters",
                  integer,
                  int64_t{64},
                  "AmoebaNet's D, inner channels of ResNet's first blocks, channels of U-Net's first level",
                  {},
                  1,
                  1 << 20},
           {of_model(kImageModels)}),
      with(Option{"model.depth", integer, int64_t{4}, "levels of U-Net, each of which halves the image", {}, 1, 16}, {of_model(kUNets)}),
      with(Option{"model.convolutions", integer, int64_t{2}, "of a level of U-Net", {}, 1, 1000}, {of_model(kUNets)}),
      with(Option{"model.squeeze_excitation", boolean, false, "ResNet's blocks weigh their channels"}, {of_model(kResNets)}),
      with(Option{"model.classes", integer, int64_t{10}, "of images; U-Net: of their pixels", {}, 1, 1 << 24}, {of_model(kImageModels)}),
      with(Option{"model.image_size", integer, int64_t{32}, "height and width of images, in pixels", {}, 1, 1 << 16},
           {of_model(kImageModels)}),
      with(Option{"model.channels", integer, int64_t{3}, "of images: 3 for colours, 1 for grey", {}, 1, 4096}, {of_model(kImageModels)}),
      with(Option{"model.aux_head", boolean, false, "a second classifier at two thirds of AmoebaNet, for training"},
           {of_model(kAmoebaNets)}),
      with(Option{"model.drop_path_keep", number, 1.0, "probability of keeping a path of a cell at the end of training", {}, 1e-6, 1},
           {of_model(kAmoebaNets)}),
      with(Option{"model.drop_path_steps", integer, int64_t{0}, "training steps until then; 0 = train.steps", {}, 0, kSteps},
           {of_model(kAmoebaNets)}),
      {"model.label_smoothing", number, 0.0, "share of the target spread over all classes", {}, 0, 0.999},

      {"data.kind", text, word("text"), "where samples come from", {"text", "synthetic", "idx", "cifar", "images", "parallel"}},
      with(
          Option{"data.path", text, word(""),
                 "a UTF-8 text file, an HTML file, or a folder of them; the folder of idx, cifar or images; of parallel a .tsv, .mo or .po "
                 "file, the stem of files STEM.LANGUAGE, or a folder of SOURCE-TARGET.tsv files or of locales"},
          {of_data({"text", "idx", "cifar", "images", "parallel"})}),
      with(Option{"data.source_language", text, word("en"), "of the first text of each pair"}, {of_data({"parallel"}), never_empty}),
      with(Option{"data.languages", text_or_texts, std::vector<std::string>{},
                  "that are translated into, such as [\"de\", \"pt_BR\"]; [] = all of a folder of locales"},
           {of_data({"parallel"})}),
      with(Option{"data.domains", text_or_texts, std::vector<std::string>{"iso_*"}, "catalogues of a folder of locales, as patterns"},
           {of_data({"parallel"}), never_empty}),
      with(Option{"data.directions", text, word("forward"), "which are learnt: forward, backward (into the source language) or both",
                  words_of(kDirectionWords)},
           {of_data({"parallel"})}),
      with(Option{"data.keep_copies", boolean, false,
                  "trains on pairs whose target equals the source, such as names; tests have them always"},
           {of_data({"parallel"})}),
      with(Option{"data.temperature",
                  number,
                  5.0,
                  "of sampling: languages in proportion to n^(1/temperature); 1 = as many as there are, large = all alike",
                  {},
                  1,
                  1e9},
           {of_data({"parallel"})}),
      with(Option{"data.buckets", integer, int64_t{12}, "lengths that sentences are padded to, at most", {}, 1, 1000},
           {of_model(kTranslations)}),
      with(Option{"data.test_pairs", integer, int64_t{100}, "of each language that eval translates; 0 = all", {}, 0, 1e9},
           {of_data({"parallel"}), decides_no_answer}),
      with(Option{"data.tokenizer", text, word("bytes"),
                  "bytes, bpe (model.vocab pieces, learnt from all of the text, the validation part too), or a SentencePiece FILE.model"},
           {of_data({"text"}), never_empty}),
      with(Option{"data.validation",
                  number,
                  0.05,
                  "share of the text, or of source sentences, that is never trained on; of images that come without a test split",
                  {},
                  0,
                  0.5},
           {of_data({"text", "idx", "cifar", "images", "parallel"})}),
      with(Option{"data.class_names", text_or_texts, std::vector<std::string>{},
                  "of idx; [] = the lines of classes.txt in data.path, else numbers"},
           {of_data({"idx"})}),
      with(Option{"data.augment", text_or_texts, word("none"),
                  "changes of training images: none, or some of flip, crop, inception, jitter, cutout"},
           {of_model(kImageModels), never_empty}),
      with(Option{"data.cache", text, word(""), "folder of token files and trained tokenizers; empty = the user's cache folder"},
           {decides_no_answer}),
      with(Option{"data.train_samples", integer, int64_t{65536}, "of synthetic data", {}, 1, 1e12}, {of_data({"synthetic"})}),
      with(Option{"data.threads", integer, int64_t{1}, "loader threads; the data do not depend on it", {}, 1, 256}, {decides_no_answer}),

      {"train.steps", integer, int64_t{1000}, "optimizer steps", {}, 1, kSteps},
      {"train.batch",
       integer,
       int64_t{16},
       "samples a mini-batch; of translation those of the longest sentences, of shorter ones as many tokens",
       {},
       1,
       1 << 24},
      {"train.seed", integer, int64_t{1}, "of parameters, dropout masks and the order of the data", {}, 0, 9e18},
      {"train.precision", text, word("f32"), "of products and activations; weights stay f32 beside it", {"f32", "tf32", "bf16"}},
      {"train.stochastic_rounding", boolean, false, "of weights to bf16; else to the nearest"},
      {"train.evaluate_every", integer, int64_t{0}, "steps between validations; 0 = only at the end", {}, 0, kSteps},
      with(Option{"train.patience",
                  integer,
                  int64_t{0},
                  "validations in a row (train.evaluate_every) without a smaller loss that end the training; 0 = any number",
                  {},
                  0,
                  1e9},
           {decides_no_answer}),
      {"train.freeze", text_or_texts, std::vector<std::string>{},
       "parameters that stay as they are, as patterns of names such as [\"embedding.*\", \"block[0-5].*\"]"},
      {"train.evaluate_batches", integer, int64_t{16}, "mini-batches of a validation; 0 = all", {}, 0, 1e9},
      with(Option{"train.on_nonfinite", text, word("stop"),
                  "at a gradient that is not finite: stop (saves first), or skip the step and count it", words_of(kOnNonfiniteWords)},
           {decides_no_answer}),
      with(Option{"train.baseline", boolean, false, "also compute the loss of a smoothed trigram model on the same split"},
           {decides_no_answer}),

      {"optimizer.name", text, word("adamw"), "the update rule", {"sgd", "rmsprop", "adam", "adamw", "lion", "adafactor"}},
      {"optimizer.lr", number, kOptimizer.lr, "learning rate after the warm-up", {}, 0, kAny},
      {"optimizer.schedule", text, word("constant"), "of the learning rate", {"constant", "cosine", "inverse-sqrt", "exponential"}},
      {"optimizer.warmup", integer, int64_t{0}, "steps of linear warm-up", {}, 0, kSteps},
      with(Option{"optimizer.total_steps", integer, int64_t{0}, "steps over which the schedule runs; 0 = train.steps", {}, 0, kSteps},
           {of_schedule({"cosine"})}),
      with(Option{"optimizer.minimum_lr", number, 0.0, "where cosine ends, and below which no schedule falls", {}, 0, kAny},
           {of_schedule({"cosine", "inverse-sqrt", "exponential"})}),
      with(Option{"optimizer.decay", number, 0.97, "factor of exponential", {}, 0, 1},
           {of_schedule({"exponential"}), open_at(Open::minimum)}),
      with(Option{"optimizer.decay_steps", integer, int64_t{1000}, "steps between two factors of exponential", {}, 1, 1e12},
           {of_schedule({"exponential"})}),
      with(Option{"optimizer.staircase", boolean, false, "exponential falls once every decay_steps, not at every step"},
           {of_schedule({"exponential"})}),
      {"optimizer.clip", number, 1.0, "largest global gradient norm; 0 = no clipping", {}, 0, kAny},
      {"optimizer.weight_decay", number, kOptimizer.weight_decay, "of matrices; not of biases and norms", {}, 0, kAny},
      with(Option{"optimizer.ema", number, 0.0, "decay of the moving averages that validation uses, such as 0.9999; 0 = none", {}, 0, 1},
           {open_at(Open::maximum)}),
      with(Option{"optimizer.momentum", number, kOptimizer.momentum, "of sgd and rmsprop", {}, 0, 1},
           {of_optimizer({"sgd", "rmsprop"}), open_at(Open::maximum)}),
      with(Option{"optimizer.average", number, kOptimizer.average, "of rmsprop: how much of the old mean of squares is kept", {}, 0, 1},
           {of_optimizer({"rmsprop"}), open_at(Open::maximum)}),
      with(Option{"optimizer.beta1", number, kOptimizer.beta1, "of adam, adamw and lion", {}, 0, 1},
           {of_optimizer({"adam", "adamw", "lion"}), open_at(Open::maximum)}),
      with(Option{"optimizer.beta2", number, kOptimizer.beta2, "of adam, adamw and lion, which is published with 0.99", {}, 0, 1},
           {of_optimizer({"adam", "adamw", "lion"}), open_at(Open::maximum)}),
      with(Option{"optimizer.epsilon", number, kOptimizer.epsilon, "of rmsprop (inside the root), adam and adamw", {}, 0, 1},
           {of_optimizer({"rmsprop", "adam", "adamw"}), open_at(Open::minimum)}),

      with(Option{"pipeline.devices", text_or_texts, std::vector<std::string>{"cpu:0"},
                  "one stage each, of all replicas and ranks: [\"cpu:0\", \"cpu:1\"], \"8x cuda\"; to plan, also \"4x meta\", \"8x a100\" "
                  "or \"4x my-device.toml\""},
           {never_empty}),
      {"pipeline.link", text, word(""),
       "of plans: line between devices, such as nvlink, pcie, ethernet-10g, wan or a TOML file; empty = the devices' own"},
      {"pipeline.host_devices",
       integer,
       int64_t{0},
       "of plans: so many of the devices are in one host, the next ones in another; 0 = all are in one",
       {},
       0,
       1 << 20},
      {"pipeline.host_link", text, word(""),
       "of plans: line of each device to other hosts, such as infiniband-ndr, ethernet-10g or a TOML file; empty = as within a host"},
      {"pipeline.micro_batches",
       integer_or_auto,
       int64_t{1},
       "parts that a mini-batch is cut into; auto: as many as make the fastest step",
       {"auto"},
       1,
       1 << 24},
      {"pipeline.replicas",
       integer_or_auto,
       int64_t{1},
       "pipelines side by side, each on its own micro-batches, with equally many of the devices; a divisor of their number; auto: the "
       "fastest",
       {"auto"},
       1,
       1 << 20},
      {"pipeline.replica_devices", text, word("auto"),
       "which a replica has: together, consecutive ones; apart, every so-manyth one, so that a stage's replicas are consecutive; auto: as "
       "hosts and their links ask for",
       words_of(kReplicaDevicesWords)},
      {"pipeline.fold_blocks",
       integer,
       int64_t{0},
       "blocks of micro-batches in which gradients are added up, which decides the bits; replicas times 1, 2, 4, ...; 0 = one a replica",
       {},
       0,
       1 << 24},
      {"pipeline.shard_optimizer", boolean, true,
       "each replica runs the optimizer on its part of the parameters, whose states only it has; false: each on all of them"},
      with(Option{"pipeline.schedule", word_or_csv, word("1f1b"), "order of forwards and backwards", schedule_words()}, {never_empty}),
      with(Option{"pipeline.partition", text_or_integers, word("auto"),
                  "auto (fastest slowest stage), parameters, uniform, or nodes a stage: [3, 4, 5]", words_of(kPartitionWords)},
           {never_empty}),
      with(Option{"pipeline.remat", text_or_texts, word("none"),
                  "activations computed again in the backward: none, full, auto (as few as the budget asks for), or names of nodes"},
           {never_empty}),
      {"pipeline.memory", bytes, int64_t{0}, "budget of a device; 0 = unlimited", {}, 0, 9e18},
      {"pipeline.threads", integer, int64_t{1}, "threads of a CPU device; the result does not depend on it", {}, 1, 1024},
      {"pipeline.cuda_graphs", text, word("off"),
       "whether cuda devices launch their kernels as CUDA graphs; auto measures both ways in the first steps", words_of(kCudaGraphsWords)},
      {"pipeline.tune", text, word("quick"),
       "how many algorithms cuda devices try before the first step: quick for some seconds, full all that are worth it",
       words_of(kTuningWords)},
      {"pipeline.timeout",
       number,
       600.0,
       "longest wait of a device for another, and longest action of a device, in seconds",
       {},
       0.001,
       1e9},
      {"pipeline.allow_other_hardware", boolean, false,
       "ranks may run on other kinds of processors or GPUs than the root: the bits then depend on which rank has which stage"},
      {"pipeline.virtual_stages",
       integer_or_auto,
       int64_t{1},
       "stages a device, of interleaved, and at most so many of auto",
       {"auto"},
       1,
       1024},
      {"pipeline.costs",
       text,
       word("counted"),
       "what plans take as times: counted operations, or node times measured here",
       {"counted", "measured"}},
      {"pipeline.replan", boolean, false,
       "move to another plan once, where what the first steps took shows one that is faster; the weights stay the same bits"},
      {"pipeline.search_seconds", number, 0.0, "after which the search for a plan ends with the best one so far; 0 = no limit", {}, 0, 1e9},

      with(Option{"output.dir", text, word("runs/latest"), "folder of checkpoints"}, {never_empty}),
      {"output.save_every", integer, int64_t{0}, "steps between checkpoints; 0 = by minutes and at the end", {}, 0, kSteps},
      {"output.save_minutes", number, 10.0, "minutes after which a checkpoint is saved, beside save_every; 0 = never", {}, 0, 1e9},
      {"output.keep", integer, int64_t{3}, "newest checkpoints that are kept", {}, 1, 1e9},
      {"output.keep_best", boolean, false, "and that of the validation with the smallest loss, in the folder best of output.dir"},
      with(Option{"output.report", text, word(""), "HTML report written at the end; auto = report.html in output.dir, empty = none"},
           {names_result}),
      with(Option{"output.trace", text, word(""), "Chrome trace of the last step; empty = none"}, {names_result}),
  };
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> table = make_options();
  return table;
}

namespace {

/// "lr" of "optimizer.lr": who writes another table before it most often means that key.
std::string_view last_part_of(std::string_view name) { return name.substr(name.find('.') + 1); }

}  // namespace

std::vector<std::string> options_called(std::string_view name) {
  std::vector<std::string> called;
  for (const Option& option : options()) {
    if (option.name == name) return {std::string(name)};
    if (last_part_of(option.name) == last_part_of(name)) called.emplace_back(option.name);
  }
  return called;
}

const Option& option_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (option.name == name) return option;
    names.emplace_back(option.name);
  }
  const std::vector<std::string> of_other_tables = options_called(name);
  std::string nearest = of_other_tables.size() == 1 ? of_other_tables[0] : nearest_word(name, of_other_tables);
  if (nearest.empty()) nearest = nearest_word(name, names);
  throw UsageError(join("unknown key '", name, "'", nearest.empty() ? "; see sluice train --help" : "; did you mean '" + nearest + "'?"));
}

namespace {

constexpr double kTellable = 1e19;  ///< larger limits are those of the type, not of the key

/// " from 1 to 100", " > 0 and < 1", " >= 0".
std::string describe_range(const Option& option) {
  const bool has_minimum = option.minimum > -kTellable, has_maximum = option.maximum < kTellable;
  const auto text = [](double limit) { return std::floor(limit) == limit ? fmt::format("{:.0f}", limit) : fmt::format("{:g}", limit); };
  if (option.open == Open::none && has_minimum && has_maximum)
    return fmt::format(" from {} to {}", text(option.minimum), text(option.maximum));
  const bool above = option.open == Open::minimum || option.open == Open::both,
             below = option.open == Open::maximum || option.open == Open::both;
  std::string range;
  if (has_minimum) range = fmt::format(" {} {}", above ? ">" : ">=", text(option.minimum));
  if (has_maximum) range += fmt::format("{} {} {}", range.empty() ? "" : " and", below ? "<" : "<=", text(option.maximum));
  return range;
}

}  // namespace

std::string describe_type(const Option& option) {
  const std::string empty = option.may_be_empty ? "" : " that is not empty";
  switch (option.type) {
    case integer:
      return "an integer" + describe_range(option);
    case integer_or_auto:
      return "auto or an integer" + describe_range(option);
    case number:
      return "a number" + describe_range(option);
    case boolean:
      return "true or false";
    case bytes:
      return "bytes such as \"8GiB\"";
    case text_or_integers:
      return fmt::format("one of {} or a list of integers", list_text(option.choices, ", "));
    case text_or_texts:
      return "a text or a list of texts" + empty;
    case word_or_csv:
      return fmt::format("one of {}, or a file FILE.csv", list_text(option.choices, ", "));
    case text:
      break;
  }
  return option.choices.empty() ? "a text" + empty : fmt::format("one of {}", list_text(option.choices, ", "));
}

std::string describe_conditions(const Option& option) {
  std::string text;
  for (const auto& [key, words] : option.conditions)
    text += fmt::format("{}{} = {}", text.empty() ? "" : " and ", key, list_text(words, " or "));
  return text;
}

std::string toml_text(const OptionValue& value) {
  // JSON's forms of numbers, booleans, strings and lists are TOML's too; only DEL must be escaped in addition.
  std::string text = std::visit([](const auto& held) { return nlohmann::json(held).dump(); }, value);
  for (size_t at = text.find('\x7f'); at != text.npos; at = text.find('\x7f')) text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace sluice::cli
