#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cli/config.h"
#include "cli/parallel_corpus.h"
#include "data/batch_sampler.h"
#include "data/image_dataset.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"
#include "parallel/run/batch_shape.h"

namespace sluice::cli {

/// Samples to train and validate on.
struct Corpus {
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<const data::TextDataset> text;     ///< the same data set when it is a text
  std::shared_ptr<const data::ImageDataset> images;  ///< the same data set when it is images
  ParallelCorpus parallel;                           ///< with the same data set when it is pairs of sentences
  data::TokenizerPtr tokenizer;                      ///< of a text, or of all languages
  std::vector<std::string> class_names;              ///< of images, or of their pixels
  std::string labels;                                ///< the input that holds their classes: "label" or "mask"
};

/// How a training made its samples from its data; weights mean nothing with another one.
struct Preparation {
  std::string tokenizer;                             ///< serialized; empty: made as data.tokenizer says
  std::optional<data::Normalisation> normalisation;  ///< of images; nothing: measured on the training split
};

/// What [data] describes, for the model of [model]. `preparation` is a checkpoint's.
/// A cache folder that cannot be written is told to warn(); what it would have kept is made again the next time.
/// Errors  UsageError naming the key and the cure, also when model and data do not belong together; DataError for bad files.
Corpus load_corpus(const Settings& settings, const Preparation& preparation = {});

/// Of a text: bytes for each token that validation scores. Nothing without a validation split.
std::optional<double> validation_bytes_per_token(const Corpus& corpus, const Settings& settings);

/// The most samples of a validation; 0 for all.
int64_t validation_limit(const Settings& settings);
/// Which samples the mini-batches of training and of a validation have: of pairs of sentences as many as the tokens of train.batch of the
/// longest ones allow.
data::BatchSamplerPtr training_sampler(const Corpus& corpus, const Settings& settings);
data::BatchSamplerPtr validation_sampler(const Corpus& corpus, const Settings& settings);
/// Of training mini-batches of sentences, one for each length that occurs, the shortest first.
std::vector<parallel::BatchShape> mini_batch_shapes(const Corpus& corpus, const layers::Graph& graph, const Settings& settings);

}  // namespace sluice::cli
