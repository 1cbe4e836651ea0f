#include "cli/result_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/device_description.h"
#include "core/error.h"
#include "core/file/file.h"
#include "data/readable_path.h"
#include "parallel/checkpoint/layout.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Behind links, where they can be followed: /dev/stdout may lead to a pipe, which has no path. As it is where the working folder is gone.
fs::path real_path(const std::string& file) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  if (error) return file;
  const fs::path path = fs::weakly_canonical(file_behind_links(whole), error);
  return error ? whole.lexically_normal() : path;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

/// Whether a folder of data may be read for files with such a name: these are endings of results that no data have.
bool may_be_data(const fs::path& file, bool pages_are_data) {
  constexpr std::string_view kResults[] = {".json", ".csv", ".svg", ".toml"};
  const std::string ending = data::ending_of(file);
  return ending == ".html" ? pages_are_data : std::ranges::find(kResults, ending) == std::end(kResults);
}

void require_unread(const std::string& subject, const fs::path& file, const FilesRead& read) {
  std::error_code ignored;
  for (const auto& [reader, name] : read.named) {
    if (name.empty() || !fs::exists(name, ignored)) continue;
    const fs::path path = real_path(name);
    require(file != path, subject, ": needs a file of its own, got ", file.string(), ", which ", reader, " reads; choose another name");
    require(!fs::is_directory(path, ignored) || !is_below(file, path) || !may_be_data(file, read.pages_are_data), subject,
            ": needs a file outside of ", name, ", which ", reader, " reads, got ", file.string(), "; choose another folder");
  }
}

/// Whether what a stream wrote there would go. A pipe or a terminal takes both.
bool is_file_of(int stream, const std::string& file) {
  struct stat of_stream, of_file;
  return fstat(stream, &of_stream) == 0 && S_ISREG(of_stream.st_mode) && stat(file.c_str(), &of_file) == 0 &&
         of_stream.st_dev == of_file.st_dev && of_stream.st_ino == of_file.st_ino;
}

void require_no_stream(const std::string& subject, const std::string& file) {
  for (const auto& [stream, name] : {std::pair{STDOUT_FILENO, "standard output"}, {STDERR_FILENO, "standard error"}})
    require(!is_file_of(stream, file), subject, ": needs a file of its own, got ", file, ", to which ", name,
            " goes; choose another name, or --json - for JSON alone on standard output");
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
  const int reason = why_not_replaceable(file);
  require<ResourceError>(reason == 0, subject, ": ", file, ": cannot be written: ", std::strerror(reason),
                         "; choose a folder that is there and can be written");
}

void require_harmless(const NamedFiles& results, const FilesRead& read) {
  std::map<fs::path, std::string> subjects;
  for (const auto& [subject, name] : results) {
    require(name != "-" || subject == "--json", subject,
            ": needs the name of a file, got -, which is the standard output for --json alone");
    if (name.empty() || name == "-") continue;
    const fs::path file = real_path(name);
    const auto [other, is_new] = subjects.try_emplace(file, subject);
    require(is_new, subject, ": needs a file of its own, got ", name, ", which ", other->second, " writes");
    require_no_stream(subject, name);
    require_unread(subject, file, read);
    require_outside_of_trainings(subject, file);
  }
}

namespace {

/// "my.toml" of "4x my.toml" and of "my.toml:0"; empty for a device without a file.
std::string description_of(const std::string& device) {
  const size_t times = device.find("x ");
  const std::string name = times == device.npos ? device.substr(0, device.rfind(':')) : device.substr(times + 2);
  return is_description_file(name) ? name : "";
}

}  // namespace

FilesRead files_read(const std::string& config, const Settings& settings) {
  FilesRead read{.named = {}, .pages_are_data = settings.text("data.kind") == "text"};
  NamedFiles& files = read.named;
  files = {{"the command", config.empty() ? "" : find_config(config).string()}};
  for (const char* key : {"data.path", "data.tokenizer", "pipeline.schedule", "pipeline.link", "pipeline.host_link"})
    files.emplace_back(key, settings.text(key));
  for (const std::string& device : settings.texts("pipeline.devices")) files.emplace_back("pipeline.devices", description_of(device));
  auto languages = settings.texts("data.languages");
  languages.push_back(settings.text("data.source_language"));
  if (!settings.text("data.path").empty())
    for (const std::string& language : languages) files.emplace_back("data.path", settings.text("data.path") + "." + language);
  return read;
}

}  // namespace sluice::cli
