#include "cli/trained_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/build.h"
#include "core/error.h"
#include "core/file/file.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/run/run_errors.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

}  // namespace

namespace {

AfterReading read_checkpoint(const fs::path& path, parallel::Wanted wanted,
                             const std::function<AfterReading(const parallel::Checkpoint&)>& read) {
  constexpr int kMostAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    const auto checkpoint = parallel::find_checkpoint(path, warn, wanted);
    try {
      return read(checkpoint);
    } catch (const parallel::HangError&) {
      throw;
    } catch (const Error&) {
      const bool was_pruned = checkpoint.folder != path && !is_there(checkpoint.folder);
      if (!was_pruned || attempt == kMostAttempts) throw;
    }
  }
}

}  // namespace

int with_checkpoint(const fs::path& path, parallel::Wanted wanted, const std::function<AfterReading(const parallel::Checkpoint&)>& read) {
  return read_checkpoint(path, wanted, read)();
}

namespace {

/// It is no word of the user: what is wrong with it is wrong with the checkpoint.
Settings config_of(const parallel::Checkpoint& checkpoint) try {
  Settings settings;
  settings.read(checkpoint.config, checkpoint.path_of("state.json") + " (config)");
  return settings;
} catch (const UsageError& error) {
  throw DataError(join(error.what(), "; or read the checkpoint with the version of Sluice that wrote it"));
}

}  // namespace

Settings settings_of(const parallel::Checkpoint& checkpoint, const std::vector<std::string>& assignments) {
  Settings settings = config_of(checkpoint);
  settings.drop_foreign();  // configs of checkpoints held every key once
  for (const char* of_plans : {"pipeline.link", "pipeline.host_link"}) settings.set(join(of_plans, "="));  // may be files that are gone
  for (const auto& assignment : assignments) settings.set(assignment);
  for (const auto& left_out : settings.drop_foreign()) note(left_out);
  return settings;
}

std::map<std::string, Tensor> parameters_of(const parallel::Checkpoint& checkpoint, const layers::Graph& graph, const Settings& settings) {
  namespace layout = parallel::checkpoint_layout;
  const bool averages = settings.number("optimizer.ema") > 0;
  if (averages) layout::require_averages(checkpoint);
  layout::TensorParts(checkpoint, averages ? layout::kAverageFile : layout::kModelFile).require_no_more(layout::known_tensors(graph));
  return parallel::load_parameters(checkpoint, graph, precision_of(settings), default_device(), averages);
}

std::string tokenizer_of(const parallel::Checkpoint& checkpoint) {
  return checkpoint.has_file(kTokenizerFile) ? read_file(checkpoint.path_of(kTokenizerFile)) : "";
}

Preparation preparation_of(const parallel::Checkpoint& checkpoint) {
  Preparation preparation{tokenizer_of(checkpoint), std::nullopt};
  const auto file = checkpoint.path_of(kNormalisationFile);
  if (checkpoint.has_file(kNormalisationFile)) preparation.normalisation = data::parse_normalisation(read_file(file), file);
  return preparation;
}

namespace {

/// Folders may have names that are no UTF-8.
std::string text_of(const std::vector<std::string>& class_names) {
  return nlohmann::json(class_names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> classes_in(const std::string& text) { return nlohmann::json::parse(text).get<std::vector<std::string>>(); }

std::vector<std::string> parse_classes(const parallel::Checkpoint& checkpoint) {
  const std::filesystem::path file = checkpoint.path_of(kClassesFile);
  try {
    return classes_in(read_file(file));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(join(file.string(), ": needs a list of the names of classes: ", error.what()));
  }
}

}  // namespace

std::map<std::string, std::string> files_of(const Corpus& corpus) {
  std::map<std::string, std::string> files;
  if (corpus.tokenizer) files[kTokenizerFile] = corpus.tokenizer->serialized();
  if (!corpus.images) return files;
  files[kNormalisationFile] = data::text_of(corpus.images->normalisation());
  files[kClassesFile] = text_of(corpus.class_names);
  return files;
}

void warn_of_other_classes(const parallel::Checkpoint& checkpoint, const Corpus& corpus) {
  if (!corpus.images || !checkpoint.has_file(kClassesFile)) return;
  const auto trained = parse_classes(checkpoint), now = classes_in(text_of(corpus.class_names));
  for (const auto& names : {trained, now})
    if (names == data::numbered_classes(static_cast<int64_t>(names.size()))) return;
  const std::string other = data::class_difference(trained, now, "in the data now");
  if (other.empty()) return;
  warn(join(
      checkpoint.folder, ": was trained on other classes than those of the data now: ", other,
      "; labels are numbers of classes, so what is counted as right is not; give data with the classes of the training, in their order"));
}

}  // namespace sluice::cli
