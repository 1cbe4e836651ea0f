#include <fmt/core.h>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/report/json_report.h"
#include "cli/trained_model.h"

namespace sluice::cli {

namespace {

/// `checkpoint` is null for a config alone.
int inspect(const Arguments& arguments, const Settings& settings, const parallel::Checkpoint* checkpoint) {
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

}  // namespace

int run_inspect(const Arguments& arguments) {
  const auto assignments = arguments.list("--set");
  std::error_code unreadable;
  if (!std::filesystem::is_directory(arguments.argument, unreadable))
    return inspect(arguments, read_settings(arguments.argument, assignments), nullptr);
  return with_checkpoint(arguments.argument, parallel::Wanted::everything, [&](const parallel::Checkpoint& checkpoint) {
    return inspect(arguments, settings_of(checkpoint, assignments), &checkpoint);
  });
}

}  // namespace sluice::cli
