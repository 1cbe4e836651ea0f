#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/safetensors.h"
#include "parallel/checkpoint.h"
#include "parallel/checkpoint_layout.h"

namespace sluice::parallel {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json described(const FileSummary& file) { return {{"bytes", file.bytes}, {"xxh3_128", file.hash}}; }

/// Writes every file of a checkpoint into a folder that exists.
void write_files(const fs::path& folder, const Trainer& trainer, const std::string& config,
                 const std::map<std::string, std::string>& further_files) {
  const auto contents = checkpoint_layout::contents_of(trainer);
  json files;
  files[checkpoint_layout::kModelFile] = described(write_safetensors(folder / checkpoint_layout::kModelFile, contents.model));
  files[checkpoint_layout::kOptimizerFile] = described(write_safetensors(folder / checkpoint_layout::kOptimizerFile, contents.states));
  if (!contents.averages.empty())
    files[checkpoint_layout::kAverageFile] = described(write_safetensors(folder / checkpoint_layout::kAverageFile, contents.averages));
  for (const auto& [name, content] : further_files) files[name] = described(write_file(folder / name, content));

  json state = {{"format", checkpoint_layout::kFormat},
                {"step", trainer.steps_done()},
                {"config", config},
                {"weights_hash", trainer.weights_hash()},
                {"files", files}};
  state["checksum"] = checkpoint_layout::checksum_of(state);
  write_file(folder / checkpoint_layout::kStateFile, checkpoint_layout::state_text(state));
  sync_folder(folder);
}

[[noreturn]] void throw_folder_error(const fs::path& path, const std::string& reason) {
  throw ResourceError(join(path.string(), ": the output folder cannot be written: ", reason, "; set [output] dir to a folder that can"));
}

void create_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) throw_folder_error(path, error ? error.message() : "it is no folder");
}

/// A folder that is removed again unless it was renamed to its final name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    create_folder(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
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

}  // namespace

OutputFolder::OutputFolder(fs::path path) : path_(std::move(path)) {
  create_folder(path_);
  const fs::path file = path_ / "lock";
  lock_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw_folder_error(path_, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    throw ResourceError(join(path_.string(), ": another training writes this output folder; wait for it, or set another [output] dir"));
  }
  // Whoever holds the lock is the only one who makes temporary folders here, so these belong to nobody alive.
  for (const auto& entry : fs::directory_iterator(path_))
    if (checkpoint_layout::is_temporary(entry.path().filename().string())) fs::remove_all(entry.path());
}

OutputFolder::~OutputFolder() { close(lock_); }

fs::path OutputFolder::set_aside_after(int64_t step) {
  const auto steps = checkpoint_layout::finished_steps(path_);
  if (steps.upper_bound(step) == steps.end()) return {};
  int number = 1;
  while (fs::exists(path_ / join("previous-", number))) ++number;
  const fs::path aside = path_ / join("previous-", number);
  create_folder(aside);
  for (auto later = steps.upper_bound(step); later != steps.end(); ++later) {
    const std::string name = checkpoint_layout::folder_name(*later);
    rename_or_throw(path_ / name, aside / name);
  }
  sync_folder(aside);
  sync_folder(path_);
  return aside;
}

fs::path OutputFolder::save(const Trainer& trainer, const std::string& config, const std::map<std::string, std::string>& further_files,
                            int keep) {
  const std::string name = checkpoint_layout::folder_name(trainer.steps_done());
  const fs::path folder = path_ / name;
  // set_aside_after() leaves at most the checkpoint that the training began with under this name, and that one is the same.
  if (!fs::exists(folder)) {
    const fs::path temporary = path_ / join(name, ".tmp-", getpid());
    const TemporaryFolder cleanup(temporary);
    write_files(temporary, trainer, config, further_files);
    rename_or_throw(temporary, folder);
    sync_folder(path_);
  }
  write_file(path_ / "latest.tmp", name + "\n");
  rename_or_throw(path_ / "latest.tmp", path_ / "latest");
  sync_folder(path_);
  prune(keep);
  return folder;
}

void OutputFolder::prune(int keep) {
  const auto steps = checkpoint_layout::finished_steps(path_);
  auto oldest = steps.begin();
  for (size_t count = steps.size(); count > static_cast<size_t>(keep); --count, ++oldest) {
    const fs::path folder = path_ / checkpoint_layout::folder_name(*oldest);
    // Renamed first, so that a kill in the middle leaves no damaged checkpoint under a finished name.
    const fs::path doomed = path_ / join(folder.filename().string(), ".tmp-", getpid());
    rename_or_throw(folder, doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace sluice::parallel
