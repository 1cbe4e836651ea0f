#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/file/file.h"
#include "core/file/safetensors.h"
#include "parallel/checkpoint.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/group/collectives.h"
#include "parallel/run/agreement.h"
#include "parallel/run/model_hash.h"

namespace sluice::parallel {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// What a checkpoint's files take beside their tensors: a header line a tensor, the state, blocks of the disk that are not full and, of a
/// training on GPUs, a line in the state for each kind of call.
constexpr int64_t kBytesPerTensor = 512, kBytesPerCheckpoint = 64 << 10, kBytesOfGpuChoices = 1 << 20;

/// Throws unless everything that the checkpoint's weights are is finite.
void require_finite(const checkpoint_layout::Contents& contents, int64_t step) {
  for (const auto* tensors : {&contents.model, &contents.averages})
    for (const auto& [name, tensor] : *tensors)
      require<DivergenceError>(is_finite(tensor), "checkpoint: '", name, "' of step ", step, " is not finite, on ", tensor.device().name(),
                               "; it is not saved, and older checkpoints are kept. Continue from the newest with a lower optimizer.lr");
}

/// Whether the folder holds the checkpoint that is in `made`, whole. Their states name the bytes of every file.
bool is_saved(const fs::path& folder, const fs::path& made) try {
  open_checkpoint(folder);
  return read_file(folder / checkpoint_layout::kStateFile) == read_file(made / checkpoint_layout::kStateFile);
} catch (const DataError&) {
  return false;
}

json described(const FileSummary& file) { return {{"bytes", file.bytes}, {"xxh3_128", file.hash}}; }

/// Writes this rank's tensors into a folder that exists, and describes the files.
json write_tensors(const fs::path& folder, const checkpoint_layout::Contents& contents, bool with_averages, int part, int parts) {
  require<ResourceError>(
      fs::is_directory(folder), folder.string(),
      ": is not there on this rank's host; choose a folder that all hosts of the job share (LoopOptions::output, [output] dir)");
  json files;
  const auto write = [&](const char* kind, const std::map<std::string, Tensor>& tensors) {
    const std::string name = checkpoint_layout::part_name(kind, part, parts);
    files[name] = described(write_safetensors(folder / name, tensors));
  };
  write(checkpoint_layout::kModelFile, contents.model);
  write(checkpoint_layout::kOptimizerFile, contents.states);
  if (with_averages) write(checkpoint_layout::kAverageFile, contents.averages);
  if (parts > 1) sync_folder(folder);
  return files;
}

/// What makes a folder of files a checkpoint.
struct StateOfFiles {
  int64_t step, skipped_steps;
  const std::string& config;
  const std::string& weights_hash;
  int parts;
  json files;
  const GpuChoices& gpu_choices;
};

void write_state(const fs::path& folder, const StateOfFiles& what) {
  json state = {{"format", what.parts == 1 ? checkpoint_layout::kFormat : checkpoint_layout::kFormatOfParts},
                {"step", what.step},
                {"config", what.config},
                {"weights_hash", what.weights_hash},
                {"files", what.files}};
  if (what.parts > 1) state["parts"] = what.parts;
  if (what.skipped_steps > 0) state[checkpoint_layout::kSkippedStepsKey] = what.skipped_steps;
  if (!what.gpu_choices.empty()) state[checkpoint_layout::kGpuChoicesKey] = what.gpu_choices;
  checkpoint_layout::write_state_file(folder, std::move(state));
  sync_folder(folder);
}

[[noreturn]] void throw_folder_error(const fs::path& path, const std::string& reason) {
  throw ResourceError(
      join(path.string(), ": the output folder cannot be written: ", reason, "; choose one that can (LoopOptions::output, [output] dir)"));
}

void create_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) throw_folder_error(path, error ? error.message() : "it is no folder");
}

/// And the folders above it where they are not there either, so that a cut of power takes none of their names away.
void create_synced_folder(const fs::path& path) {
  std::vector<fs::path> made;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) throw_folder_error(path, join("the working folder has no path: ", error.message()));
  for (fs::path folder = whole; !fs::is_directory(folder, error) && folder.has_relative_path(); folder = folder.parent_path())
    made.push_back(folder);
  create_folder(path);
  for (const fs::path& folder : made) sync_folder(folder.parent_path());
}

void remove_or_throw(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require<ResourceError>(!error, path.string(), ": cannot be removed: ", error.message(),
                         "; remove it, or choose another output folder (LoopOptions::output, [output] dir)");
}

/// A folder that is removed again unless it was renamed to its final name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    remove_or_throw(path_);
    create_folder(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  fs::path path_;
};

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_folder_error(to, error.message());
}

/// 0, or an errno: EWOULDBLOCK where another process has the lock. One that was killed has it for a moment longer than it is seen, and whoever
/// restarts it may be faster. Waits for two seconds, in which a machine that stands still does not count: nothing ends then.
int why_not_locked(int file) {
  constexpr std::chrono::milliseconds kPause(20);
  for (auto left = std::chrono::milliseconds(2000); flock(file, LOCK_EX | LOCK_NB) != 0; left -= kPause) {
    if (errno != EWOULDBLOCK || left.count() <= 0) return errno;
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

}  // namespace

OutputFolder::OutputFolder(std::string path, Group* group) : path_(std::move(path)), group_(group) {
  on_root(group_, [&] { lock(); });
}

void OutputFolder::lock() try {
  create_synced_folder(path_);
  lock_ = open(path_of(checkpoint_layout::kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw_folder_error(path_, std::strerror(errno));
  if (const int reason = why_not_locked(lock_)) {
    if (reason != EWOULDBLOCK) throw_folder_error(path_, std::strerror(reason));
    throw ResourceError(
        join(path_, ": another training writes this output folder; wait for it, or set another LoopOptions::output ([output] dir)"));
  }
  // Whoever holds the lock is the only one who makes temporary files and folders here, so these belong to nobody alive.
  std::error_code error;
  const auto names = checkpoint_layout::names_in(path_, error);
  if (error) throw_folder_error(path_, error.message());
  for (const auto& name : names)
    if (checkpoint_layout::is_temporary(name)) remove_or_throw(path_of(name));
} catch (...) {
  if (lock_ >= 0) close(std::exchange(lock_, -1));
  throw;
}

OutputFolder::~OutputFolder() {
  if (lock_ >= 0) close(lock_);
}

void OutputFolder::keep_room(const Trainer& trainer, int64_t further_bytes) {
  const auto contents = checkpoint_layout::contents_of(trainer);
  const bool is_on_gpus = trainer.plan().devices[0]->kind() == DeviceKind::cuda;
  int64_t bytes = is_root() ? kBytesPerCheckpoint + (is_on_gpus ? kBytesOfGpuChoices : 0) + further_bytes : 0;
  for (const auto* tensors : {&contents.model, &contents.states, &contents.averages})
    for (const auto& [name, tensor] : *tensors) bytes += tensor.bytes() + static_cast<int64_t>(name.size()) + kBytesPerTensor;
  const int rank = group_ ? group_->rank() : 0;
  together(group_, [&] { room_.emplace(path_of(checkpoint_layout::reserve_name(rank)), bytes); });
}

std::vector<std::string> OutputFolder::checkpoints_after(int64_t step) const {
  std::vector<std::string> names;
  for (const int64_t later : checkpoint_layout::finished_steps(path_))
    if (const auto name = checkpoint_layout::folder_name(later); later > step && checkpoint_layout::is_checkpoint(path_of(name)))
      names.push_back(name);
  return names;
}

std::string OutputFolder::path_of(const std::string& name) const { return fs::path(path_) / name; }

std::string OutputFolder::set_aside_after(int64_t step) {
  return on_root(group_, [&] { return move_aside(checkpoints_after(step)); });
}

std::string OutputFolder::move_aside(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  int number = 1;
  while (fs::exists(path_of(join("previous-", number)))) ++number;
  const fs::path aside = path_of(join("previous-", number));
  create_folder(aside);
  for (const auto& name : names) rename_or_throw(path_of(name), aside / name);
  sync_folder(aside);
  sync_folder(path_);
  return aside;
}

std::string OutputFolder::save(const Trainer& trainer, const std::string& config, const std::map<std::string, std::string>& further_files,
                               int keep) {
  require(keep >= 1, "checkpoint: needs to keep at least 1, got ", keep);
  checkpoint_layout::require_texts(config, further_files);
  trainer.require_whole();
  try {
    return save_whole(trainer, config, further_files, keep);
  } catch (const CommError& error) {
    if (dynamic_cast<const ThrownByAll*>(&error) != nullptr) throw;
    throw CommError(join(error.what(), ", while step ", trainer.steps_done(), " was saved"));
  }
}

std::string OutputFolder::save_whole(const Trainer& trainer, const std::string& config,
                                     const std::map<std::string, std::string>& further_files, int keep) {
  const auto contents = checkpoint_layout::contents_of(trainer);
  together(group_, [&] {
    require_values(contents.model);
    require_finite(contents, trainer.steps_done());
  });
  const std::string name = checkpoint_layout::folder_name(trainer.steps_done()), hash = hash_of_model(trainer.group(), contents.model);
  const std::string folder = path_of(name);
  std::optional<TemporaryFolder> made;  // by the root
  const std::string temporary = on_root(group_, [&] {
    made.emplace(path_of(join(name, ".tmp-", getpid())));
    return made->path().string();
  });
  write_parts(temporary, trainer, contents, hash, config, further_files);
  on_root(group_, [&] {
    const bool is_new = !is_saved(folder, temporary);
    auto in_the_way = checkpoints_after(trainer.steps_done());
    if (is_new && fs::exists(fs::symlink_status(folder))) in_the_way.push_back(name);
    move_aside(in_the_way);
    if (is_new) rename_or_throw(temporary, folder);
    sync_folder(path_);
    write_file(path_of(checkpoint_layout::kNewLatestFile), name + "\n");
    rename_or_throw(path_of(checkpoint_layout::kNewLatestFile), path_of(checkpoint_layout::kLatestFile));
    sync_folder(path_);
    prune(keep);
  });
  return folder;
}

/// Every rank its tensors, and the root, when all are on the disk, what makes them a checkpoint.
void OutputFolder::write_parts(const std::string& folder, const Trainer& trainer, const checkpoint_layout::Contents& contents,
                               const std::string& hash, const std::string& config,
                               const std::map<std::string, std::string>& further_files) const {
  const int part = group_ ? group_->rank() : 0, parts = group_ ? group_->size() : 1;
  json files;
  together(group_, [&] { files = write_tensors(folder, contents, trainer.optimizer().ema > 0, part, parts); });
  const auto all = parts > 1 ? gather(*group_, files.dump()) : std::vector<std::string>();
  on_root(group_, [&] {
    for (const std::string& others : all) files.update(json::parse(others));
    for (const auto& [name, content] : further_files) files[name] = described(write_file(fs::path(folder) / name, content));
    write_state(folder, {trainer.steps_done(), trainer.steps_skipped(), config, hash, parts, std::move(files), trainer.gpu_choices()});
  });
}

void OutputFolder::prune(int keep) {
  const auto names = checkpoints_after(-1);
  auto oldest = names.begin();
  for (size_t count = names.size(); count > static_cast<size_t>(keep); --count, ++oldest) {
    // Renamed first, so that a kill in the middle leaves no damaged checkpoint under a finished name.
    const std::string doomed = path_of(join(*oldest, ".tmp-", getpid()));
    rename_or_throw(path_of(*oldest), doomed);
    remove_or_throw(doomed);
  }
}

}  // namespace sluice::parallel
