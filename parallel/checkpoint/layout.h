#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/file/safetensors.h"
#include "parallel/checkpoint.h"

/// Names and forms on the disk that reading and writing of checkpoints share.
namespace sluice::parallel::checkpoint_layout {

inline constexpr int kFormat = 1, kFormatOfParts = 2;
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kLockFile = "lock";                  ///< in the output folder: held by its training
inline constexpr const char* kLatestFile = "latest";              ///< in the output folder: the name of the newest checkpoint
inline constexpr const char* kGpuChoicesKey = "gpu_algorithms";   ///< in the state: absent where there are none
inline constexpr const char* kSkippedStepsKey = "skipped_steps";  ///< in the state: absent where there are none
inline constexpr const char* kNewLatestFile = "latest.tmp";

/// Whether it is the number of a step that trainings reach.
bool is_step(const nlohmann::json& step);

/// "step-00001234"
std::string folder_name(int64_t step);
/// The names of what is in a folder, in any order. `error`: why they could not all be read.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error);
/// Steps of what bears a finished checkpoint's name in `output`, ascending; none where there is no such folder.
/// Errors  DataError for a folder that cannot be read.
std::set<int64_t> finished_steps(const std::filesystem::path& output);
/// True for a folder with a state.json, damaged or not.
bool is_checkpoint(const std::filesystem::path& folder);
/// "reserve.tmp-3": of a rank's room on the disk, for the moment in which it has a name.
std::string reserve_name(int rank);
/// True for "step-00001234.tmp-<pid>", "reserve.tmp-<rank>" and "latest.tmp".
bool is_temporary(const std::string& name);
/// The file of one part of a kind of tensors, from 0: "model-00001-of-00004.safetensors", or the name itself where there is one part.
std::string part_name(const std::string& name, int part, int parts);
/// Those of all parts.
std::vector<std::string> part_names(const std::string& name, int parts);
/// Of what a caller wants to keep with a checkpoint.
/// Errors  UsageError for a config or a name that is not UTF-8, for a name that is a path, and for one that a checkpoint's own files have.
void require_texts(const std::string& config, const std::map<std::string, std::string>& files);
/// "node.parameter/momentum": of a state of the optimizer.
std::string state_name(const std::string& parameter, const std::string& state);
/// What this rank writes of a trainer: its own tensors, or of several replicas whole copies on the host.
struct Contents {
  std::map<std::string, Tensor> model;     ///< "node.parameter", and "node.running_mean" of running statistics
  std::map<std::string, Tensor> states;    ///< "node.parameter/m"
  std::map<std::string, Tensor> averages;  ///< under the names of `model`; empty when the training keeps none
};
/// All ranks call it together.
Contents contents_of(const Trainer& trainer);
/// The names that a checkpoint's weights and averages may have: those of all tensors of the model.
std::set<std::string> known_tensors(const layers::Graph& graph);
/// The names that a checkpoint's states may have: those of the trainer's optimizer, also with other options.
std::set<std::string> known_states(const Trainer& trainer);
/// One kind of a checkpoint's tensors, in however many parts. Errors name the part that a tensor is in, and the first where it is in none.
/// Errors  DataError of its files, and for a tensor that is in two of them.
class TensorParts {
 public:
  TensorParts(const Checkpoint& checkpoint, const std::string& name);
  const std::map<std::string, SafetensorsEntry>& tensors() const { return tensors_; }
  const std::string& path_of(const std::string& tensor) const;
  /// Errors  DataError with both shapes, unless the tensor is there as the model or optimizer needs it.
  void require_tensor(const std::string& name, DType dtype, const Shape& shape) const;
  /// Errors  DataError for a tensor that has none of these names.
  void require_no_more(const std::set<std::string>& known) const;
  void read(const std::string& name, const Tensor& into) const { files_[part_of_.at(name)].read(name, into); }

 private:
  bool is_of_states_;
  std::vector<std::string> paths_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, SafetensorsEntry> tensors_;
  std::map<std::string, size_t> part_of_;
};
/// What evaluation showed: the averages, or the model where there are none.
inline const char* shown_file(const Checkpoint& checkpoint) { return checkpoint.has_averages ? kAverageFile : kModelFile; }
/// Names and shapes of all that a model is: parameters and running statistics, of all ranks.
std::map<std::string, Shape> shapes_of(const layers::Graph& graph);
/// Weights that are not finite are those of a training that diverged: what is computed with them is as wrong.
/// Errors  DataError naming the part that they were read from, the tensor and the element.
void check_finite(const TensorParts& parts, const std::map<std::string, Tensor>& weights);
void check_finite(const TensorParts& parts, const std::vector<StatePart>& weights);
/// Errors  DataError for a checkpoint without moving averages.
void require_averages(const Checkpoint& checkpoint);
/// Errors  DataError unless `hash` is that of the weights that were saved.
void require_weights_hash(const Checkpoint& checkpoint, const std::string& hash);
/// The one text that a state has, so that any changed byte is seen.
std::string state_text(const nlohmann::json& state);
/// XXH3-128 of the state's text, without its checksum.
std::string checksum_of(const nlohmann::json& state);
/// A state without a checksum becomes the state.json of `folder`, with it.
/// Errors  ResourceError when it cannot be written.
void write_state_file(const std::filesystem::path& folder, nlohmann::json state);

}  // namespace sluice::parallel::checkpoint_layout
