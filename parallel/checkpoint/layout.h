#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "parallel/checkpoint.h"

/// Names and forms on the disk that reading and writing of checkpoints share.
namespace sluice::parallel::checkpoint_layout {

inline constexpr int kFormat = 1;
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kLatestFile = "latest";  ///< in the output folder: the name of the newest checkpoint

/// "step-00001234"
std::string folder_name(int64_t step);
/// Steps of what bears a finished checkpoint's name in `output`, ascending.
std::set<int64_t> finished_steps(const std::filesystem::path& output);
/// True for a folder with a state.json, damaged or not.
bool is_checkpoint(const std::filesystem::path& folder);
/// True for "step-00001234.tmp-<pid>".
bool is_temporary(const std::string& name);
/// The trainer's own tensors under their names in the files.
struct Contents {
  std::map<std::string, Tensor> model;     ///< "node.parameter", and "node.running_mean" of running statistics
  std::map<std::string, Tensor> states;    ///< "node.parameter/m"
  std::set<std::string> unneeded_states;   ///< what a file may have beside them, of an optimizer with other options
  std::map<std::string, Tensor> averages;  ///< under the names of `model`; empty when the training keeps none
};
Contents contents_of(const Trainer& trainer);
/// What evaluation showed: the averages, or the model where there are none.
inline std::filesystem::path shown_file(const Checkpoint& checkpoint) {
  return checkpoint.folder / (checkpoint.has_averages ? kAverageFile : kModelFile);
}
/// Weights that are not finite are those of a training that diverged: what is computed with them is as wrong.
/// Errors  DataError naming the file that they were read from, the tensor and the element.
void check_finite(const std::filesystem::path& file, const std::map<std::string, Tensor>& weights);
/// The one text that a state has, so that any changed byte is seen.
std::string state_text(const nlohmann::json& state);
/// XXH3-128 of the state's text, without its checksum.
std::string checksum_of(const nlohmann::json& state);

}  // namespace sluice::parallel::checkpoint_layout
