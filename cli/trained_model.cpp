#include "cli/trained_model.h"

#include <fmt/core.h>

#include "core/error.h"
#include "core/file.h"

namespace sluice::cli {

parallel::Checkpoint find_checkpoint(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / "state.json")) return parallel::open_checkpoint(path);
  const auto latest = parallel::find_latest(path, warn);
  require<DataError>(latest.has_value(), path.string(), ": needs a checkpoint (step-... with state.json) or a folder of them, found none");
  return *latest;
}

Settings settings_of(const parallel::Checkpoint& checkpoint, const std::vector<std::string>& assignments) {
  Settings settings;
  settings.read(checkpoint.config, (checkpoint.folder / "state.json").string() + " (config)");
  for (const auto& assignment : assignments) settings.set(assignment);
  return settings;
}

std::string tokenizer_of(const parallel::Checkpoint& checkpoint) {
  const auto file = checkpoint.folder / kTokenizerFile;
  return std::filesystem::exists(file) ? read_file(file) : "";
}

void warn(const std::string& text) { std::fputs(fmt::format("sluice: warning: {}\n", text).c_str(), stderr); }

}  // namespace sluice::cli
