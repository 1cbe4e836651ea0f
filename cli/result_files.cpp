#include "cli/result_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "parallel/checkpoint/layout.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

fs::path real_path(const std::string& file) { return fs::weakly_canonical(fs::absolute(file)); }

void require_unread(const std::string& subject, const fs::path& file, const NamedFiles& read) {
  std::error_code ignored;
  for (const auto& [reader, name] : read) {
    if (name.empty() || !fs::exists(name, ignored)) continue;
    require(file != real_path(name), subject, ": needs a file of its own, got ", file.string(), ", which ", reader,
            " reads; choose another name");
  }
}

/// A training owns these names in its folder, and all in its checkpoints.
void require_outside_of_trainings(const std::string& subject, const fs::path& file) {
  namespace layout = parallel::checkpoint_layout;
  require(!layout::is_checkpoint(file.parent_path()), subject, ": needs a file outside of checkpoints, got ", file.string(),
          "; choose another folder");
  std::error_code ignored;
  const bool is_output = fs::exists(file.parent_path() / layout::kLockFile, ignored);
  require(!is_output || (file.filename() != layout::kLockFile && file.filename() != layout::kLatestFile), subject,
          ": needs a name that the folder of a training does not use itself, got ", file.string(), "; choose another name");
}

}  // namespace

void require_writable(const std::string& subject, const std::string& file) {
  if (file.empty() || file == "-") return;
  std::error_code ignored;
  const bool is_new = !fs::exists(file, ignored);
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  const int reason = errno;
  if (descriptor >= 0) close(descriptor);
  if (descriptor >= 0 && is_new) unlink(file.c_str());
  const bool is_pipe_without_reader = descriptor < 0 && reason == ENXIO;
  require<ResourceError>(descriptor >= 0 || is_pipe_without_reader, subject, ": ", file, ": cannot be written: ", std::strerror(reason),
                         "; choose a folder that is there and can be written");
}

void require_harmless(const NamedFiles& results, const NamedFiles& read) {
  std::map<fs::path, std::string> subjects;
  for (const auto& [subject, name] : results) {
    if (name.empty() || name == "-") continue;
    const fs::path file = real_path(name);
    const auto [other, is_new] = subjects.try_emplace(file, subject);
    require(is_new, subject, ": needs a file of its own, got ", name, ", which ", other->second, " writes");
    require_unread(subject, file, read);
    require_outside_of_trainings(subject, file);
  }
}

NamedFiles files_read(const std::string& config, const Settings& settings) {
  NamedFiles files{{"the command", config}};
  for (const char* key : {"data.path", "data.tokenizer", "pipeline.schedule", "pipeline.link", "pipeline.host_link"})
    files.emplace_back(key, settings.text(key));
  return files;
}

}  // namespace sluice::cli
