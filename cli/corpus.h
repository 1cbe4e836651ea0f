#pragma once
#include <memory>
#include <string>

#include "cli/config.h"
#include "data/image_dataset.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"

namespace sluice::cli {

/// Samples to train and validate on.
struct Corpus {
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<const data::TextDataset> text;     ///< the same data set when it is a text
  std::shared_ptr<const data::ImageDataset> images;  ///< the same data set when it is pictures
  data::TokenizerPtr tokenizer;                      ///< of a text
  double bytes_per_token = 0;                        ///< of a text
  std::vector<std::string> class_names;              ///< of pictures, or of their pixels
  std::string labels;                                ///< the input that holds their classes: "label" or "mask"
};

/// What [data] describes, for the model of [model].
/// `serialized_tokenizer` is a checkpoint's; empty to make it as [data] tokenizer says.
/// Errors  UsageError naming the key and the cure, also when model and data do not belong together; DataError for bad files.
Corpus load_corpus(const Settings& settings, const std::string& serialized_tokenizer = "");

}  // namespace sluice::cli
