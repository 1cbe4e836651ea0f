#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/config.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"
#include "parallel/plan.h"

/// From settings to the things that they describe.
/// Errors  UsageError naming the key and the cure.
namespace sluice::cli {

layers::Graph build_graph(const Settings& settings);
std::unique_ptr<Optimizer> build_optimizer(const Settings& settings);
std::vector<DevicePtr> build_devices(const Settings& settings);
parallel::Plan build_plan(const layers::Graph& graph, const Settings& settings);

/// What these devices can do at most, for predictions and MFU: measured when they are CPU devices.
DeviceSpeed speed_of(const std::vector<DevicePtr>& devices);

/// Samples to train and validate on.
struct Corpus {
  std::shared_ptr<const data::LanguageDataset> dataset;
  std::shared_ptr<const data::TextDataset> text;  ///< the same data set when it is a text
  data::TokenizerPtr tokenizer;                   ///< of a text
  double bytes_per_token = 0;                     ///< of a text
};
/// `serialized_tokenizer` is a checkpoint's; empty to make it as [data] tokenizer says.
Corpus load_corpus(const Settings& settings, const std::string& serialized_tokenizer = "");

}  // namespace sluice::cli
