#include "cli/continued.h"

#include <fmt/core.h>

#include "cli/options.h"

namespace sluice::cli {

namespace {

/// A schedule runs until the end of the training, which then is not free to change.
bool follows_the_end(const Settings& settings) {
  const bool by_rate = settings.text("optimizer.schedule") == "cosine" && settings.integer("optimizer.total_steps") == 0;
  return by_rate || (settings.number("model.drop_path_keep") < 1 && settings.integer("model.drop_path_steps") == 0);
}

}  // namespace

std::vector<std::string> answer_lines(const Settings& settings) {
  std::vector<std::string> list;
  for (const Option& option : options()) {
    const bool is_free = option.name.starts_with("pipeline.") || option.name.starts_with("output.") ||
                         option.name == "train.on_nonfinite" || (option.name == "train.steps" && !follows_the_end(settings));
    if (!is_free) list.push_back(fmt::format("{} = {}", option.name, toml_text(settings.value(option.name))));
  }
  return list;
}

std::vector<std::string> changes_of_answer(const Settings& before, const Settings& now) {
  // Only the settings of now say whether the end is free, so that both lists are of the same options.
  const auto value = [](const Settings& settings, const std::string& line) {
    const std::string name = line.substr(0, line.find(" = "));
    return fmt::format("{} = {}", name, toml_text(settings.value(name)));
  };
  std::vector<std::string> changes;
  for (const std::string& line : answer_lines(now))
    if (const std::string then = value(before, line); then != line)
      changes.push_back(fmt::format("the checkpoint was trained with {}, now it is {}", then, line));
  return changes;
}

}  // namespace sluice::cli
