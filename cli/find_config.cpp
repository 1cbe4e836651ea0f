#include <fmt/core.h>

#include <set>

#include "cli/config.h"
#include "cli/install_paths.h"
#include "cli/list_text.h"
#include "core/error.h"

namespace sluice::cli {

namespace fs = std::filesystem;

namespace {

/// Where configs are looked up by name, in this order.
std::vector<fs::path> config_folders() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  return {fs::path(kSourceConfigs), fs::path(kInstalledConfigs), program / "configs", program / ".." / "share" / "sluice" / "configs"};
}

std::vector<std::string> known_configs() {
  std::set<std::string> names;
  for (const auto& folder : config_folders()) {
    std::error_code nothing_there;
    for (const auto& entry : fs::directory_iterator(folder, nothing_there))
      if (entry.path().extension() == ".toml") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

/// What else the name may have been to be.
std::string nearest_configs(const std::string& name) {
  const auto known = known_configs();
  if (known.empty())
    return fmt::format(
        "no configs are in the folders where this program looks for them: {}; give a file with its path, or run the program where it was "
        "built "
        "or installed",
        list_text(config_folders(), ", "));
  const std::string nearest = nearest_word(name, known);
  return nearest.empty() ? fmt::format("known: {}", list_text(known, ", ")) : "did you mean '" + nearest + "'?";
}

}  // namespace

fs::path find_config(const std::string& name) {
  if (is_file(name)) return name;
  for (const auto& folder : config_folders())
    if (is_file(folder / (name + ".toml"))) return folder / (name + ".toml");
  std::error_code error;
  const auto status = fs::status(name, error);
  require(!fs::is_directory(status), name,
          ": needs a config file or the name of one, got a folder; a folder of checkpoints is what train takes after --resume");
  require(!fs::exists(status), name, ": needs a regular file, not a pipe or device; copy it into one");
  require(status.type() == fs::file_type::not_found, name, ": cannot be read: ", error.message());
  throw UsageError(join(name, ": needs a config file or the name of one, found neither; ", nearest_configs(name)));
}

}  // namespace sluice::cli
