#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/corpus.h"
#include "cli/messages.h"
#include "data/tokenizer.h"
#include "layers/graph.h"
#include "parallel/checkpoint.h"

namespace sluice::cli {

/// Files of a checkpoint that say how samples are made: of text, of images. Checkpoints of synthetic text have none.
inline constexpr const char* kTokenizerFile = "tokenizer.model";
inline constexpr const char* kNormalisationFile = "normalisation.json";
/// Of images: the names of the classes in the order of their numbers. Older checkpoints have none.
inline constexpr const char* kClassesFile = "classes.json";

/// What a command does when it has read all that it needs of a checkpoint. Returns the exit code.
using AfterReading = std::function<int()>;

/// Calls `read` with the checkpoint of `path`, then what it gives. A training that goes on in a folder of checkpoints may remove the newest one
/// while it is read: `read` is then called again with the newest one of that time, so what cannot be done twice comes after it.
int with_checkpoint(const std::filesystem::path& path, parallel::Wanted wanted,
                    const std::function<AfterReading(const parallel::Checkpoint&)>& read);

/// The config that a checkpoint was trained with, with --set assignments over it.
/// Errors  DataError for a config that this version cannot read; UsageError for an assignment.
Settings settings_of(const parallel::Checkpoint& checkpoint, const std::vector<std::string>& assignments);

/// What a model computes with: the moving averages where settings keep them (optimizer.ema), as evaluation reads them, else the weights.
/// `graph`  all of the model.
/// Errors  as parallel::load_parameters, and DataError for a checkpoint that lacks averages, or has a tensor that the model has not.
std::map<std::string, Tensor> parameters_of(const parallel::Checkpoint& checkpoint, const layers::Graph& graph, const Settings& settings);

/// The bytes of the checkpoint's tokenizer; empty when it has none.
std::string tokenizer_of(const parallel::Checkpoint& checkpoint);

/// What the samples of a checkpoint's training were made with. Errors  DataError for a damaged normalisation.
Preparation preparation_of(const parallel::Checkpoint& checkpoint);
/// The same as files of a checkpoint, with what tells whether other data fit: name -> content.
std::map<std::string, std::string> files_of(const Corpus& corpus);

/// Warns where images have other classes than the checkpoint was trained on, whose numbers mean something else to it; not where one of the two
/// has numbers for names. Errors  DataError for a damaged file.
void warn_of_other_classes(const parallel::Checkpoint& checkpoint, const Corpus& corpus);

}  // namespace sluice::cli
