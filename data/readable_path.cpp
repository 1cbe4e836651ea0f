#include "data/readable_path.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "core/error.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

const char* cure_of(const std::error_code& error) {
  if (error == std::errc::too_many_symbolic_link_levels) return "a link leads back to itself: point it elsewhere or remove it";
  if (error == std::errc::permission_denied)
    return "allow reading it and the folders above it (chmod, or ask the owner), or choose another path";
  return "check the path";
}

void require_no_error(const std::error_code& error, const fs::path& path, const char* failure) {
  require<DataError>(!error, path.string(), ": ", failure, ": ", error.message(), "; ", cure_of(error));
}

constexpr const char* kCannotLookUp = "cannot be looked up";
constexpr const char* kCannotRead = "cannot read the folder";

bool is_absence(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!is_absence(error)) require_no_error(error, path, kCannotLookUp);
  std::error_code ignored;
  require<DataError>(fs::exists(status) || !fs::is_symlink(path, ignored), path.string(),
                     ": is a link to something that is not there; point it elsewhere, mount what it leads to, or remove it");
  return status;
}

}  // namespace

bool exists_readably(const fs::path& path) { return fs::exists(status_of(path)); }

bool is_folder_readably(const fs::path& path) { return fs::is_directory(status_of(path)); }

bool is_folder_readably(const fs::directory_entry& entry) {
  std::error_code error;
  const bool is_folder = entry.is_directory(error);
  if (!is_absence(error)) require_no_error(error, entry.path(), kCannotLookUp);
  return is_folder;
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator entry(folder, error);
  require_no_error(error, folder, kCannotRead);
  while (entry != fs::directory_iterator()) {
    entries.push_back(*entry);
    entry.increment(error);
    require_no_error(error, folder, kCannotRead);
  }
  return entries;
}

void visit_files_below(const fs::path& folder, const std::function<void(const fs::directory_entry&)>& visit) {
  for (const auto& entry : entries_of(folder)) {
    if (is_hidden(entry.path())) continue;
    if (!is_folder_readably(entry)) {
      visit(entry);
      continue;
    }
    std::error_code ignored;
    require<DataError>(!entry.is_symlink(ignored), entry.path().string(),
                       ": is a link to a folder, which is not followed; put the folder itself ",
                       "here, or links to its files, or remove the link");
    visit_files_below(entry.path(), visit);
  }
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

}  // namespace sluice::data
