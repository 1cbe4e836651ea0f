#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/checkpoint/reserved_room.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

namespace checkpoint_layout {
struct Contents;
}

/// A checkpoint: a folder "step-00001234" with the parameters and running statistics by full name (model.safetensors), the optimizer's
/// states as "name/state" (optimizer.safetensors), the moving averages of a training that keeps them under the names of what they follow
/// (ema.safetensors), and state.json, which holds everything else and the length and XXH3-128 of every file, itself included. A training over
/// R ranks writes each of the three in R parts, "model-00001-of-00004.safetensors", whose tensors are those of one rank; any number of ranks
/// reads them.
struct Checkpoint {
  std::string folder;
  int64_t step = 0;
  int64_t skipped_steps = 0;  ///< of those before it
  std::string config;         ///< of the training, as TOML
  std::string weights_hash;   ///< Trainer::weights_hash() when it was saved
  bool has_averages = false;
  int parts = 1;                   ///< files of each kind of tensor
  std::vector<std::string> files;  ///< that state.json names, in name order; what else is in the folder is not of the checkpoint
  GpuChoices gpu_choices;          ///< of a training on GPUs

  bool has_file(const std::string& name) const;
  std::string path_of(const std::string& name) const;  ///< of a file in it
};

/// What of a checkpoint is wanted: all of it, or what evaluation reads, which is all but the optimizer's states.
enum class Wanted { everything, weights };

/// Reads state.json and proves that every file that is wanted is the one that was saved.
/// Errors  DataError naming the file and what differs.
Checkpoint open_checkpoint(const std::string& folder, Wanted wanted = Wanted::everything);

/// The folders of an output folder that bear a finished checkpoint's name, whole or not, oldest first.
std::vector<std::string> finished_checkpoints(const std::string& output);

/// The newest checkpoint of an output folder that is whole. Each newer one that is not is told to `warn` and left where it is. One that its
/// training removes while it is read is no damaged one: the search starts again.
std::optional<Checkpoint> find_latest(const std::string& output, const std::function<void(const std::string&)>& warn,
                                      Wanted wanted = Wanted::everything);

/// The checkpoint at a path: that folder, or of an output folder the newest that is whole.
/// Errors  DataError where there is none.
Checkpoint find_checkpoint(const std::string& path, const std::function<void(const std::string&)>& warn = {},
                           Wanted wanted = Wanted::everything);

/// Puts parameters, optimizer states, moving averages and the step into a trainer of the same model, whatever its partition, devices and
/// schedule. A trainer that keeps no averages leaves those of the checkpoint aside, and one whose optimizer's options need fewer states
/// (Optimizer::unneeded_state_names) the others: a momentum that is 0 now, or RMSProp's of checkpoints from before it was left out.
/// GPUs go on with the checkpoint's algorithms (Trainer::adopt_choices).
/// Errors  DataError naming a missing, extra or other-shaped parameter, with both shapes, or one with a value that is not finite; when the
///         trainer keeps averages and the checkpoint has none. What can be refused before a tensor is read leaves the trainer as it was;
///         after that it refuses everything until it is restored (Trainer::require_whole).
void restore(const Checkpoint& checkpoint, Trainer& trainer);

/// Puts the weights, or the moving averages of them, into a trainer that only evaluates: one that keeps neither optimizer states nor averages;
/// with the algorithms of GPUs, so that it computes what the training computed.
/// Errors  as restore(), and DataError for weights that are not finite.
void restore_weights(const Checkpoint& checkpoint, bool averages, Trainer& trainer);

/// The parameters by full name as evaluation read them in that precision, rounded to the nearest, and the running statistics in f32, on
/// one device; checked against the graph. They are the moving averages where `averages` is true and the checkpoint has them, else the weights
/// that were trained. The graph may be a part of the model that was trained, such as a generator: what the checkpoint has beside its parameters
/// is left.
/// Errors  DataError naming a missing or other-shaped parameter, or one with a value that is not finite.
std::map<std::string, Tensor> load_parameters(const Checkpoint& checkpoint, const layers::Graph& graph, Precision precision,
                                              const DevicePtr& device = default_device(), bool averages = true);

/// The folder of one training, locked while this object lives. All ranks of a training call everything together: each writes its part, and
/// the root commits the whole.
///
/// A checkpoint is written to a temporary folder, synced, and renamed: a kill at any moment leaves the old ones, or the old ones and the new.
/// What only bears a checkpoint's name, such as a user's own file, is never deleted.
/// Errors  ResourceError when the folder cannot be written or another process writes it; no finished checkpoint is touched then.
class OutputFolder {
 public:
  /// Creates the folder and removes temporary folders that a killed process left. `group`: null for one process.
  /// Errors  ResourceError when another training writes the folder and does not end within two seconds, or it cannot be made or locked.
  explicit OutputFolder(std::string path, Group* group = nullptr);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const;  ///< of what is in it
  /// Moves checkpoints after `step` to a folder "previous-N", so that a training that begins at `step` never mixes with them.
  /// Returns that folder; empty when there were none.
  std::string set_aside_after(int64_t step);
  /// Keeps room on the disk for one checkpoint of the trainer with `further_bytes` beside its tensors, until it is released for the last
  /// save. Errors  ResourceError when the room is not there.
  void keep_room(const Trainer& trainer, int64_t further_bytes);
  void release_room() { room_.reset(); }
  /// Saves the trainer with its config and further files (name -> content), then deletes all but the newest `keep` checkpoints.
  /// What stands in the way, other checkpoints of this step or later ones, is of another training and goes to a folder "previous-N". One of
  /// this step whose files are all the same, byte for byte, stays as it is.
  /// Errors  DivergenceError when a weight is not finite: nothing is written or deleted then. Error where Trainer::require_whole throws.
  /// CommError when another rank fails meanwhile, which says of which step.
  std::string save(const Trainer& trainer, const std::string& config, const std::map<std::string, std::string>& further_files, int keep);

 private:
  void lock();
  bool is_root() const { return !group_ || group_->is_root(); }
  std::string save_whole(const Trainer& trainer, const std::string& config, const std::map<std::string, std::string>& further_files,
                         int keep);
  void write_parts(const std::string& folder, const Trainer& trainer, const checkpoint_layout::Contents& contents, const std::string& hash,
                   const std::string& config, const std::map<std::string, std::string>& further_files) const;
  std::string move_aside(const std::vector<std::string>& names);
  std::vector<std::string> checkpoints_after(int64_t step) const;
  void prune(int keep);
  std::string path_;
  Group* const group_;
  int lock_ = -1;
  std::optional<ReservedRoom> room_;
};

}  // namespace sluice::parallel
