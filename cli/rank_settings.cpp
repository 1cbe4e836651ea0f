#include "cli/rank_settings.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "cli/build.h"
#include "cli/list_text.h"
#include "cli/options.h"
#include "parallel/run/agreement.h"

namespace sluice::cli {

namespace {

/// What was asked for, by key and flag. A host may have its own number of threads and its own cache.
parallel::Terms wanted_by(const Arguments& arguments, const Settings& settings) {
  constexpr std::string_view kOfEachHost[] = {"data.cache", "data.threads", "pipeline.threads"};
  parallel::Terms wanted;
  for (const Option& option : options())
    if (std::ranges::find(kOfEachHost, option.name) == std::end(kOfEachHost))
      wanted.emplace_back(option.name, toml_text(settings.value(option.name)));
  for (const auto& [flag, values] : arguments.values)
    if (flag != "--set") wanted.emplace_back(flag, join("'", list_text(values, ", "), "'"));
  return wanted;
}

}  // namespace

Settings settings_of_ranks(const Arguments& arguments, const Job& job) {
  const auto read = [&] { return read_settings(arguments.argument, arguments.list("--set")); };
  parallel::Group* const ranks = job.ranks().get();
  if (!ranks) return read();
  std::optional<Settings> settings;
  parallel::on_root(ranks, [&] {
    settings = read();
    build_graph(*settings);
    build_optimizer(*settings);
    require(!settings->flag("pipeline.replan"), "pipeline.replan: needs one process, got ", job.text(), "; set it to false");
  });
  parallel::compare_with_root(
      *ranks,
      [&] {
        if (!settings) settings = read();
        return wanted_by(arguments, *settings);
      },
      [](const std::string& name, const std::string& own, const std::string& of_root) {
        const auto said = [](const std::string& text) { return text.empty() ? "nothing" : text; };
        throw UsageError(join(name, ": needs what the root has, ", said(of_root), ", got ", said(own),
                              "; start all ranks with the same config file, the same settings and the same flags"));
      });
  job.set_watchdog(settings->number("pipeline.timeout"));
  return *settings;
}

}  // namespace sluice::cli
