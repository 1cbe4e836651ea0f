#include "cli/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/list_text.h"
#include "core/error.h"
#include "parallel/schedule.h"

namespace sluice::cli {

namespace {

using enum OptionType;
constexpr double kAny = std::numeric_limits<double>::max();

/// Texts come as std::string: a bare literal would become a bool in the variant.
std::string word(const char* text) { return text; }

/// Schedules that train, and the one that is searched.
std::vector<std::string> training_schedules() {
  std::vector<std::string> names = parallel::schedule_names();
  std::erase(names, "forward-only");
  names.emplace_back("auto");
  return names;
}

std::vector<Option> make_options() {
  return {
      {"model.name",
       text,
       word("transformer-lm"),
       "the model",
       {"transformer-lm", "amoebanet-d", "amoebanet-b", "resnet50", "resnet101", "unet"}},
      {"model.layers", integer, int64_t{6}, "blocks of attention and feed-forward; normal cells of AmoebaNet", {}, 1, 100000},
      {"model.dim", integer, int64_t{384}, "width of the residual stream", {}, 1, 1 << 20},
      {"model.heads", integer, int64_t{6}, "attention heads; divides dim", {}, 1, 1 << 20},
      {"model.ffn", integer, int64_t{0}, "inner width of the feed-forward layers; 0 = 4 * dim", {}, 0, 1 << 24},
      {"model.vocab", integer, int64_t{256}, "tokens of the vocabulary; 256 for bytes", {}, 2, 1 << 24},
      {"model.context", integer, int64_t{256}, "tokens of a training sample", {}, 1, 1 << 24},
      {"model.dropout", number, 0.0, "share of activations dropped in training", {}, 0, 0.999},
      {"model.tied_embeddings", boolean, true, "the output projection is the token embedding"},
      {"model.positions", text, word("learned"), "position encoding", {"learned", "sinusoidal", "rotary"}},
      {"model.norm", text, word("layernorm"), "normalization", {"layernorm", "rmsnorm"}},
      {"model.activation", text, word("gelu_tanh"), "of the feed-forward layers", {"gelu", "gelu_tanh", "relu", "silu"}},
      {"model.filters",
       integer,
       int64_t{64},
       "AmoebaNet's D, inner channels of ResNet's first blocks, channels of U-Net's first level",
       {},
       1,
       1 << 20},
      {"model.depth", integer, int64_t{4}, "levels of U-Net, each of which halves the image", {}, 1, 16},
      {"model.convolutions", integer, int64_t{2}, "of a level of U-Net", {}, 1, 1000},
      {"model.squeeze_excitation", boolean, false, "ResNet's blocks weigh their channels"},
      {"model.classes", integer, int64_t{10}, "of images; U-Net: of their pixels", {}, 1, 1 << 24},
      {"model.image_size", integer, int64_t{32}, "height and width of images, in pixels", {}, 1, 1 << 16},
      {"model.channels", integer, int64_t{3}, "of images: 3 for colours, 1 for grey", {}, 1, 4096},
      {"model.aux_head", boolean, false, "a second classifier at two thirds of AmoebaNet, for training"},
      {"model.drop_path_keep", number, 1.0, "probability of keeping a path of a cell at the end of training", {}, 1e-6, 1},
      {"model.drop_path_steps", integer, int64_t{0}, "training steps until then; 0 = train.steps", {}, 0, 1e12},
      {"model.label_smoothing", number, 0.0, "share of the target spread over all classes", {}, 0, 0.999},

      {"data.kind", text, word("text"), "where samples come from", {"text", "synthetic", "idx", "cifar", "images", "parallel"}},
      {"data.path", text, word(""), "a UTF-8 text file, an HTML file, or a folder of them; the folder of idx, cifar or images"},
      {"data.tokenizer", text, word("bytes"), "bytes, bpe (trained on the data, model.vocab pieces), or a SentencePiece FILE.model"},
      {"data.validation",
       number,
       0.05,
       "share of the text that is never trained on; of pictures that come without a test split",
       {},
       0,
       0.5},
      {"data.class_names", text_or_texts, std::vector<std::string>{}, "of idx; [] = the lines of classes.txt in data.path, else numbers"},
      {"data.augment", text_or_texts, word("none"), "changes of training pictures: none, or some of flip, crop, inception, jitter, cutout"},
      {"data.cache", text, word(""), "folder of token files and trained tokenizers; empty = the user's cache folder"},
      {"data.train_samples", integer, int64_t{65536}, "of synthetic data", {}, 1, 1e12},
      {"data.threads", integer, int64_t{1}, "loader threads; the data do not depend on it", {}, 1, 256},

      {"train.steps", integer, int64_t{1000}, "optimizer steps", {}, 1, 1e12},
      {"train.batch", integer, int64_t{16}, "samples a mini-batch", {}, 1, 1 << 24},
      {"train.seed", integer, int64_t{1}, "of parameters, dropout masks and the order of the data", {}, 0, 9e18},
      {"train.precision", text, word("f32"), "of products and activations; weights stay f32 beside it", {"f32", "tf32", "bf16"}},
      {"train.stochastic_rounding", boolean, false, "of weights to bf16; else to the nearest"},
      {"train.evaluate_every", integer, int64_t{0}, "steps between validations; 0 = only at the end", {}, 0, 1e12},
      {"train.evaluate_batches", integer, int64_t{16}, "mini-batches of a validation; 0 = all", {}, 0, 1e9},
      {"train.on_nonfinite",
       text,
       word("stop"),
       "at a gradient that is not finite: stop (saves first), or skip the step and count it",
       {"stop", "skip"}},
      {"train.baseline", boolean, false, "also compute the loss of a smoothed trigram model on the same split"},

      {"optimizer.name", text, word("adamw"), "the update rule", {"sgd", "rmsprop", "adam", "adamw"}},
      {"optimizer.lr", number, 1e-3, "learning rate after the warm-up", {}, 0, kAny},
      {"optimizer.schedule", text, word("constant"), "of the learning rate", {"constant", "cosine", "inverse-sqrt", "exponential"}},
      {"optimizer.warmup", integer, int64_t{0}, "steps of linear warm-up", {}, 0, 1e12},
      {"optimizer.total_steps", integer, int64_t{0}, "steps over which the schedule runs; 0 = train.steps", {}, 0, 1e12},
      {"optimizer.minimum_lr", number, 0.0, "where cosine ends, and below which no schedule falls", {}, 0, kAny},
      {"optimizer.decay", number, 0.97, "factor of exponential", {}, 0, 1},
      {"optimizer.decay_steps", integer, int64_t{1000}, "steps between two factors of exponential", {}, 1, 1e12},
      {"optimizer.staircase", boolean, false, "exponential falls once every decay_steps, not at every step"},
      {"optimizer.clip", number, 1.0, "largest global gradient norm; 0 = no clipping", {}, 0, kAny},
      {"optimizer.weight_decay", number, 0.0, "of matrices; not of biases and norms", {}, 0, kAny},
      {"optimizer.ema", number, 0.0, "decay of the moving averages that validation uses, such as 0.9999; 0 = none", {}, 0, 1},
      {"optimizer.momentum", number, 0.9, "of sgd and rmsprop", {}, 0, 1},
      {"optimizer.average", number, 0.9, "of rmsprop: how much of the old mean of squares is kept", {}, 0, 1},
      {"optimizer.beta1", number, 0.9, "of adam and adamw", {}, 0, 1},
      {"optimizer.beta2", number, 0.999, "of adam and adamw", {}, 0, 1},
      {"optimizer.epsilon", number, 1e-8, "of rmsprop (inside the root), adam and adamw", {}, 0, 1},

      {"pipeline.devices", text_or_texts, std::vector<std::string>{"cpu:0"},
       "one stage each: [\"cpu:0\", \"cpu:1\"]; to plan, also \"4x meta\", \"8x a100\" or \"4x my-device.toml\""},
      {"pipeline.link", text, word(""),
       "of plans: line between devices, such as nvlink, pcie, ethernet-10g, wan or a TOML file; empty = the devices' own"},
      {"pipeline.micro_batches",
       integer_or_auto,
       int64_t{1},
       "parts that a mini-batch is cut into; auto: as many as make the fastest step",
       {"auto"},
       1,
       1 << 24},
      {"pipeline.schedule", word_or_csv, word("1f1b"), "order of forwards and backwards", training_schedules()},
      {"pipeline.partition",
       text_or_integers,
       word("auto"),
       "auto (fastest slowest stage), parameters, uniform, or nodes a stage: [3, 4, 5]",
       {"auto", "parameters", "uniform"}},
      {"pipeline.remat", text_or_texts, word("none"),
       "activations computed again in the backward: none, full, auto (as few as the budget asks for), or names of nodes"},
      {"pipeline.memory", bytes, int64_t{0}, "budget of a device; 0 = unlimited", {}, 0, 9e18},
      {"pipeline.threads", integer, int64_t{1}, "threads of a CPU device; the result does not depend on it", {}, 1, 1024},
      {"pipeline.cuda_graphs",
       text,
       word("off"),
       "whether cuda devices launch their kernels as CUDA graphs; auto measures both ways in the first steps",
       {"off", "on", "auto"}},
      {"pipeline.timeout", number, 600.0, "seconds that a device waits for another", {}, 0.001, 1e9},
      {"pipeline.virtual_stages", integer_or_auto, int64_t{1}, "stages a device, for the schedule interleaved", {"auto"}, 1, 1024},
      {"pipeline.costs",
       text,
       word("counted"),
       "what plans reckon with: counted operations, or node times measured here",
       {"counted", "measured"}},

      {"output.dir", text, word("runs/latest"), "folder of checkpoints"},
      {"output.save_every", integer, int64_t{0}, "steps between checkpoints; 0 = by minutes and at the end", {}, 0, 1e12},
      {"output.save_minutes", number, 10.0, "minutes after which a checkpoint is saved, beside save_every; 0 = never", {}, 0, 1e9},
      {"output.keep", integer, int64_t{3}, "newest checkpoints that are kept", {}, 1, 1e9},
      {"output.report", text, word(""), "HTML report written at the end; empty = none"},
      {"output.trace", text, word(""), "Chrome trace of the last step; empty = none"},
  };
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> table = make_options();
  return table;
}

const Option& option_named(std::string_view name) {
  for (const Option& option : options())
    if (option.name == name) return option;
  std::vector<std::string> names;
  for (const Option& option : options()) names.emplace_back(option.name);
  const std::string nearest = nearest_word(name, names);
  throw UsageError(join("unknown key '", name, "'", nearest.empty() ? "; see sluice train --help" : "; did you mean '" + nearest + "'?"));
}

std::string describe_type(const Option& option) {
  std::string range;
  if (option.minimum > std::numeric_limits<double>::lowest()) range = fmt::format(" >= {:g}", option.minimum);
  if (option.type == number && option.maximum <= 1) range += fmt::format(" and <= {:g}", option.maximum);
  switch (option.type) {
    case integer:
      return "an integer" + range;
    case integer_or_auto:
      return "auto or an integer" + range;
    case number:
      return "a number" + range;
    case boolean:
      return "true or false";
    case bytes:
      return "bytes such as \"8GiB\"";
    case text_or_integers:
      return fmt::format("one of {} or a list of integers", list_text(option.choices, ", "));
    case text_or_texts:
      return "a text or a list of texts";
    case word_or_csv:
      return fmt::format("one of {}, or a file FILE.csv", list_text(option.choices, ", "));
    case text:
      break;
  }
  return option.choices.empty() ? "a text" : fmt::format("one of {}", list_text(option.choices, ", "));
}

std::string toml_text(const OptionValue& value) {
  // JSON's forms of numbers, booleans, strings and lists are TOML's too; only DEL must be escaped in addition.
  std::string text = std::visit([](const auto& held) { return nlohmann::json(held).dump(); }, value);
  for (size_t at = text.find('\x7f'); at != text.npos; at = text.find('\x7f')) text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace sluice::cli
