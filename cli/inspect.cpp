#include <fmt/core.h>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/json_report.h"
#include "cli/trained_model.h"

namespace sluice::cli {

int run_inspect(const Arguments& arguments) {
  const bool trained = std::filesystem::is_directory(arguments.argument);
  const auto checkpoint = trained ? std::optional(find_checkpoint(arguments.argument)) : std::nullopt;
  const auto assignments = arguments.list("--set");
  const Settings settings = trained ? settings_of(*checkpoint, assignments) : read_settings(arguments.argument, assignments);
  const auto graph = build_graph(settings);

  Json json = model_json(graph);
  if (trained) {
    json["steps"] = checkpoint->step;
    json["weights_hash"] = checkpoint->weights_hash;
  }
  const std::string target = arguments.text("--json");
  if (target != "-") {
    for (const auto& node : json["nodes"])
      fmt::print("{:<32} {:>16}\n", node["name"].get<std::string>(), node["parameters"].get<int64_t>());
    fmt::print("{:<32} {:>16}\n", "parameters", graph.parameter_count());
    if (trained) fmt::print("trained for {} steps, weights {}\n", checkpoint->step, checkpoint->weights_hash);
  }
  write_json(json, target);
  return 0;
}

}  // namespace sluice::cli
