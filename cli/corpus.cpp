#include "cli/corpus.h"

#include <algorithm>
#include <filesystem>

#include "cli/build.h"
#include "cli/data_cache.h"
#include "cli/list_text.h"
#include "cli/messages.h"
#include "core/error.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/image_split.h"
#include "data/loader.h"
#include "data/parallel/token_budget_sampler.h"
#include "data/synthetic.h"
#include "data/synthetic_images.h"
#include "data/synthetic_shapes.h"

namespace sluice::cli {

namespace {

uint64_t seed_of(const Settings& settings) { return static_cast<uint64_t>(settings.integer("train.seed")); }

const std::string& path_of(const Settings& settings, const char* what) {
  const std::string& path = settings.text("data.path");
  require(!path.empty(), "data.path: needs ", what, ", got none; set it, or data.kind = \"synthetic\"");
  return path;
}

Corpus synthetic_text(const Settings& settings) {
  data::SyntheticText::Options options;
  options.vocabulary = settings.integer("model.vocab");
  options.context = settings.integer("model.context");
  options.seed = seed_of(settings);
  options.train_samples = settings.integer("data.train_samples");
  Corpus corpus;
  corpus.dataset = std::make_shared<data::SyntheticText>(options);
  return corpus;
}

Corpus text_corpus(const Settings& settings, const std::string& serialized_tokenizer) {
  const auto texts = data::find_text(path_of(settings, "a text file or a folder"));
  const int64_t vocabulary = settings.integer("model.vocab");
  Corpus corpus;
  corpus.tokenizer =
      !serialized_tokenizer.empty() ? data::load_tokenizer(serialized_tokenizer) : with_cache(settings, [&](const auto& cache) {
        return data::make_tokenizer(settings.text("data.tokenizer"), vocabulary, texts, cache);
      });
  require(corpus.tokenizer->vocabulary() == vocabulary, "model.vocab: needs ", corpus.tokenizer->vocabulary(),
          ", the vocabulary of tokenizer ", corpus.tokenizer->name(), ", got ", vocabulary);
  const data::Tokens tokens = with_cache(settings, [&](const auto& cache) { return data::tokenize(texts, *corpus.tokenizer, cache); });
  corpus.text =
      std::make_shared<data::TextDataset>(tokens, settings.integer("model.context"), settings.number("data.validation"), seed_of(settings));
  corpus.dataset = corpus.text;
  return corpus;
}

data::ImageSplits synthetic_images(const Settings& settings) {
  data::SyntheticImageOptions options;
  options.classes = settings.integer("model.classes");
  options.image_size = settings.integer("model.image_size");
  options.channels = settings.integer("model.channels");
  options.seed = seed_of(settings);
  options.train_samples = settings.integer("data.train_samples");
  return data::synthetic_images(options);
}

data::ImageSplits open_images(const Settings& settings) {
  const std::string& kind = settings.text("data.kind");
  if (kind == "synthetic") return synthetic_images(settings);
  const std::string& path = path_of(settings, "the folder of the images");
  if (kind == "idx") return data::open_idx(path, settings.texts("data.class_names"));
  return kind == "cifar" ? data::open_cifar(path) : data::open_image_folder(path);
}

/// The images of a folder differ in size and are cut and resized; those of the other kinds are taken as they are.
void check_match(const Settings& settings, const data::ImageSource& images) {
  const auto check = [&](const char* key, int64_t needed, const char* what) {
    require(settings.integer(key) == needed, key, ": needs ", needed, ", the ", what, " of ", settings.text("data.path"), ", got ",
            settings.integer(key), "; set ", key, " = ", needed);
  };
  check("model.classes", static_cast<int64_t>(images.class_names().size()), "number of classes");
  check("model.channels", images.channels(), "channels");
  if (settings.text("data.kind") == "images") return;
  const data::Image first = images.image(0);
  check("model.image_size", std::min(first.height, first.width), "size of the images");
}

/// The usual strengths: of crop and cutout those of their papers at 32 pixels, in proportion.
data::Augmentation augmentation_of(const Settings& settings) {
  const int64_t side = settings.integer("model.image_size");
  const std::vector<std::string> names = settings.texts("data.augment");
  data::Augmentation result;
  for (const auto& name : names) {
    require(std::ranges::count(names, name) == 1 && (name != "none" || names.size() == 1),
            "data.augment: needs none alone, or a list of others, each once, got ", list_text(names, ", "));
    if (name == "flip")
      result.flip = true;
    else if (name == "crop")
      result.pad = std::max<int64_t>(1, side / 8);
    else if (name == "inception")
      result.inception_crop = true;
    else if (name == "jitter")
      result.colour_jitter = 0.4;
    else if (name == "cutout")
      result.cutout = std::max<int64_t>(1, side / 2);
    else
      require(name == "none", "data.augment: needs none or a list of flip, crop, inception, jitter and cutout, got '", name, "'");
  }
  return result;
}

Corpus image_corpus(const Settings& settings, const std::optional<data::Normalisation>& normalisation) {
  const auto augmentation = augmentation_of(settings);
  const int64_t side = settings.integer("model.image_size");
  const auto splits = data::split_by_seed(open_images(settings), settings.number("data.validation"), seed_of(settings));
  check_match(settings, *splits.train);
  require(splits.validation->size() > 0, "data.validation: needs a share above 0, as ", settings.text("data.path"),
          " keeps no images apart to validate on");
  Corpus corpus;
  corpus.images = std::make_shared<data::ImageDataset>(
      splits, data::ImageOptions{.image_size = side, .seed = seed_of(settings), .augmentation = augmentation},
      normalisation ? *normalisation
                    : with_cache(settings, [&](const auto& cache) { return data::measure_normalisation(*splits.train, side, cache); }));
  corpus.dataset = corpus.images;
  corpus.class_names = corpus.images->class_names();
  corpus.labels = "label";
  return corpus;
}

Corpus pairs_corpus(const Settings& settings, const std::string& serialized_tokenizer) {
  Corpus corpus;
  corpus.parallel = load_parallel_corpus(settings, serialized_tokenizer);
  corpus.dataset = corpus.parallel.dataset;
  corpus.tokenizer = corpus.parallel.tokenizer;
  return corpus;
}

data::TokenBudgetOptions budget_of(const Settings& settings) {
  const bool has_languages = settings.text("data.kind") == "parallel";
  return {.samples = settings.integer("train.batch"),
          .temperature = has_languages ? settings.number("data.temperature") : 1,
          .seed = seed_of(settings)};
}

Corpus mask_corpus(const Settings& settings) {
  const std::string& kind = settings.text("data.kind");
  require(kind == "synthetic", "data.kind: ", settings.text("model.name"),
          " needs synthetic, as this version reads no masks from files, got ", kind, "; set data.kind = \"synthetic\"");
  require(settings.texts("data.augment") == std::vector<std::string>{"none"}, "data.augment: needs none for images with masks, got ",
          list_text(settings.texts("data.augment"), ", "));
  data::SyntheticShapes::Options options;
  options.classes = settings.integer("model.classes");
  options.image_size = settings.integer("model.image_size");
  options.channels = settings.integer("model.channels");
  options.seed = seed_of(settings);
  options.train_samples = settings.integer("data.train_samples");
  const auto shapes = std::make_shared<data::SyntheticShapes>(options);
  Corpus corpus;
  corpus.dataset = shapes;
  corpus.class_names = shapes->class_names();
  corpus.labels = "mask";
  return corpus;
}

}  // namespace

Corpus load_corpus(const Settings& settings, const Preparation& preparation) {
  const std::string& kind = settings.text("data.kind");
  if (is_pixel_model(settings)) return mask_corpus(settings);
  const bool images = is_image_model(settings);
  const bool translation = is_translation_model(settings);
  std::vector<std::string> known = images ? std::vector<std::string>{"idx", "cifar", "images"} : std::vector<std::string>{"text"};
  if (translation) known = {"parallel"};
  known.emplace_back("synthetic");
  require(std::find(known.begin(), known.end(), kind) != known.end(), "data.kind: ", settings.text("model.name"), " needs ",
          list_text(known, " or "), ", got ", kind, "; set data.kind or model.name");
  if (translation) return pairs_corpus(settings, preparation.tokenizer);
  if (images) return image_corpus(settings, preparation.normalisation);
  return kind == "synthetic" ? synthetic_text(settings) : text_corpus(settings, preparation.tokenizer);
}

int64_t validation_limit(const Settings& settings) { return settings.integer("train.evaluate_batches") * settings.integer("train.batch"); }

std::optional<double> validation_bytes_per_token(const Corpus& corpus, const Settings& settings) {
  const auto samples = data::validation_samples(*corpus.dataset, validation_limit(settings));
  if (samples.empty()) return std::nullopt;
  const auto targets = corpus.dataset->load("targets", data::Split::validation, 0, samples).to_vector<int32_t>();
  return static_cast<double>(corpus.tokenizer->decode(targets).size()) / static_cast<double>(targets.size());
}

data::BatchSamplerPtr training_sampler(const Corpus& corpus, const Settings& settings) {
  const auto& pairs = corpus.parallel.dataset;
  if (pairs) return std::make_shared<data::TokenBudgetSampler>(*pairs, budget_of(settings));
  return std::make_shared<data::ShuffledSampler>(corpus.dataset->size(data::Split::train), settings.integer("train.batch"),
                                                 seed_of(settings));
}

std::vector<parallel::BatchShape> mini_batch_shapes(const Corpus& corpus, const layers::Graph& graph, const Settings& settings) {
  const auto& pairs = *corpus.parallel.dataset;
  const data::TokenBudgetSampler sampler(pairs, budget_of(settings));
  std::vector<parallel::BatchShape> shapes;
  for (int64_t bucket = 0; bucket < static_cast<int64_t>(pairs.buckets().size()); ++bucket) {
    if (sampler.batches_per_epoch(bucket) == 0) continue;
    const data::PairLengths& lengths = pairs.buckets()[static_cast<size_t>(bucket)];
    parallel::BatchShape shape = parallel::declared_shape(graph, sampler.batch_samples(bucket));
    shape.inputs.at("source").sample_shape = {lengths.source};
    for (const char* target : {"target", "labels"}) shape.inputs.at(target).sample_shape = {lengths.target};
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

data::BatchSamplerPtr validation_sampler(const Corpus& corpus, const Settings& settings) {
  const int64_t limit = validation_limit(settings), batch = settings.integer("train.batch");
  const auto& pairs = corpus.parallel.dataset;
  if (pairs) return data::token_budget_validation(*pairs, budget_of(settings), limit);
  return std::make_shared<data::SequentialSampler>(*corpus.dataset, data::Split::validation,
                                                   data::validation_samples(*corpus.dataset, limit), [=](int64_t) { return batch; });
}

}  // namespace sluice::cli
