#include <fmt/core.h>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/failure.h"
#include "cli/messages.h"
#include "cli/report/json_report.h"
#include "cli/result_files.h"
#include "cli/trained_model.h"
#include "core/error.h"
#include "data/tokenizer.h"
#include "parallel/checkpoint/verify.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// `checkpoint` is null for a config alone.
int inspect(const Arguments& arguments, const Settings& settings, const parallel::Checkpoint* checkpoint) {
  require_harmless({{"--json", arguments.text("--json")}}, files_read(checkpoint ? "" : arguments.argument, settings));
  const auto graph = build_graph(settings);
  Json json = model_json(graph);
  if (checkpoint != nullptr) {
    json["steps"] = checkpoint->step;
    json["weights_hash"] = checkpoint->weights_hash;
  }
  const std::string target = arguments.text("--json");
  if (target != "-") {
    for (const auto& node : json["nodes"])
      fmt::print("{:<32} {:>16}\n", node["name"].get<std::string>(), node["parameters"].get<int64_t>());
    fmt::print("{:<32} {:>16}\n", "parameters", graph.parameter_count());
    if (checkpoint != nullptr) fmt::print("trained for {} steps, weights {}\n", checkpoint->step, checkpoint->weights_hash);
  }
  write_json(json, target);
  return 0;
}

/// What was found in one checkpoint, as a line of the output; the same goes to `json`.
std::string verified_line(const fs::path& folder, const std::vector<std::string>& assignments, Json& json) {
  const auto checkpoint = parallel::open_checkpoint(folder);
  const auto settings = settings_of(checkpoint, assignments);
  if (const std::string tokenizer = preparation_of(checkpoint).tokenizer; !tokenizer.empty()) data::load_tokenizer(tokenizer);
  const auto found = parallel::verify(checkpoint, build_graph(settings), *build_optimizer(settings));
  json.update({{"steps", checkpoint.step},
               {"weights_hash", checkpoint.weights_hash},
               {"parts", checkpoint.parts},
               {"tensors", found.tensors},
               {"bytes", found.bytes},
               {"values", found.values},
               {"not_finite", found.not_finite}});
  const auto ill = found.not_finite == 0 ? "" : fmt::format(", {} values of the optimizer's states are not finite", found.not_finite);
  return fmt::format("{}: verified: {} tensors, {} bytes{}", folder.string(), found.tensors, found.bytes, ill);
}

/// Verifies a checkpoint, or each one of an output folder, and tells an error for each that is not whole.
int verify_checkpoints(const fs::path& path, const Arguments& arguments) {
  std::error_code ignored;
  const bool is_one = fs::exists(path / "state.json", ignored);
  const std::string target = arguments.text("--json");
  require_harmless({{"--json", target}}, {});
  Json results = Json::array();
  int code = 0;
  for (const auto& folder : is_one ? std::vector{path.string()} : parallel::finished_checkpoints(path)) {
    Json json = {{"checkpoint", folder}, {"error", nullptr}};
    try {
      const std::string line = verified_line(folder, arguments.list("--set"), json);
      if (target != "-") fmt::print("{}\n", line);
    } catch (const DataError& error) {
      if (!is_one && !fs::exists(fs::symlink_status(folder, ignored))) continue;  // its training has removed it meanwhile
      json["error"] = explain(error);
      tell_error(explain(error));
      code = exit_code_of(error);
    }
    results.push_back(std::move(json));
  }
  require<DataError>(!results.empty(), path.string(),
                     ": needs a checkpoint (step-... with state.json) or a folder of them, found none; name the output.dir of a training");
  write_json({{"verified", results}}, target);
  return code;
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  const auto assignments = arguments.list("--set");
  std::error_code unreadable;
  const bool is_folder = fs::is_directory(arguments.argument, unreadable);
  if (arguments.has("--verify")) {
    require(is_folder, "--verify: needs the folder of a checkpoint or of a training, got '", arguments.argument,
            "'; name the output.dir of a training, or one of its step-... folders");
    return verify_checkpoints(arguments.argument, arguments);
  }
  if (!is_folder) return inspect(arguments, read_settings(arguments.argument, assignments), nullptr);
  return with_checkpoint(arguments.argument, parallel::Wanted::everything, [&](const parallel::Checkpoint& checkpoint) {
    const int code = inspect(arguments, settings_of(checkpoint, assignments), &checkpoint);
    return [code] { return code; };
  });
}

}  // namespace sluice::cli
