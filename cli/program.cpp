#include "cli/program.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>

#include "build_config.h"
#include "cli/arguments.h"
#include "cli/help.h"
#include "core/error.h"
#include "parallel/divergence.h"

namespace sluice::cli {

namespace {

/// The parser of the command line, made from the command table; what is parsed lands in `arguments` and `chosen`.
class Parser {
 public:
  Parser() {
    app_.require_subcommand(0, 1);
    app_.failure_message(CLI::FailureMessage::simple);
    app_.add_flag("--version", version_, "print the version, and stop");
    app_.add_flag("--man", man_, "print the manual page, and stop");
    app_.add_option("--completion", completion_, "print the completion script of bash, zsh or fish, and stop");
    for (const Command& command : commands()) add(command);
  }

  int run(int argument_count, char** arguments) {
    try {
      app_.parse(argument_count, arguments);
    } catch (const CLI::CallForHelp&) {
      fmt::print("{}", app_.help());
      return 0;
    } catch (const CLI::ParseError& error) {
      throw UsageError(explain(error.what()));
    }
    return run_parsed();
  }

 private:
  struct Parsed {
    const Command* command;
    CLI::App* app;
    std::string argument;
    std::map<std::string, std::vector<std::string>> values;
    std::map<std::string, bool> switches;
  };

  void add(const Command& command) {
    auto& parsed = *parsed_.emplace_back(std::make_unique<Parsed>());
    parsed.command = &command;
    parsed.app = app_.add_subcommand(std::string(command.name), std::string(command.help));
    if (!command.argument.empty()) parsed.app->add_option(std::string(command.argument), parsed.argument)->required();
    for (const Flag& flag : command.flags) {
      const std::string name(flag.name), help(flag.help);
      if (flag.value.empty())
        parsed.app->add_flag(name, parsed.switches[name], help);
      else
        parsed.app->add_option(name, parsed.values[name], help)->type_name(std::string(flag.value))->expected(1)->take_all();
    }
    if (command.argument.find("CONFIG") != std::string_view::npos) parsed.app->footer(config_help());
  }

  int run_parsed() {
    if (version_) fmt::print("sluice {}\n", build::version);
    if (man_) fmt::print("{}", man_page());
    if (!completion_.empty()) fmt::print("{}", completion(completion_));
    if (version_ || man_ || !completion_.empty()) return 0;
    for (const auto& parsed : parsed_)
      if (parsed->app->parsed()) return parsed->command->run(arguments_of(*parsed));
    fmt::print("{}", app_.help());
    return 0;
  }

  static Arguments arguments_of(const Parsed& parsed) {
    Arguments arguments;
    arguments.argument = parsed.argument;
    for (const auto& [flag, values] : parsed.values)
      if (!values.empty()) arguments.values[flag] = values;
    for (const auto& [flag, given] : parsed.switches)
      if (given) arguments.values[flag] = {""};
    return arguments;
  }

  /// The parser's message, with the nearest flag or command when a word was not known.
  static std::string explain(const std::string& message) {
    std::vector<std::string> known;
    for (const Command& command : commands()) {
      known.emplace_back(command.name);
      for (const Flag& flag : command.flags) known.emplace_back(flag.name);
    }
    const size_t colon = message.rfind(": ");
    if (message.find("not expected") != std::string::npos && colon != std::string::npos) {
      // The parser lists the words from the last one to the first.
      std::vector<std::string> words;
      std::istringstream rest(message.substr(colon + 2));
      for (std::string word; rest >> word;) words.insert(words.begin(), word);
      for (const std::string& word : words)
        if (const std::string nearest = nearest_word(word, known); !nearest.empty())
          return join(message, "; did you mean '", nearest, "'?");
    }
    return message + "; see sluice --help";
  }

  CLI::App app_{"Train models as pipelines over several devices.", "sluice"};
  bool version_ = false, man_ = false;
  std::string completion_;
  std::vector<std::unique_ptr<Parsed>> parsed_;
};

int report(const std::exception& error, int exit_code) {
  fmt::print(stderr, "sluice: error: {}\n", error.what());
  return exit_code;
}

}  // namespace

int run_program(int argument_count, char** arguments) try {
  return Parser().run(argument_count, arguments);
} catch (const UsageError& error) {
  return report(error, 2);
} catch (const DataError& error) {
  return report(error, 3);
} catch (const ResourceError& error) {
  return report(error, 4);
} catch (const CommError& error) {
  return report(error, 5);
} catch (const parallel::DivergenceError& error) {
  return report(error, 6);
} catch (const std::filesystem::filesystem_error& error) {
  return report(error, 4);
} catch (const std::bad_alloc& error) {
  return report(ResourceError("the system has no memory left; use more micro-batches, remat = \"full\" or a smaller model"), 4);
} catch (const std::exception& error) {
  return report(error, 1);
}

}  // namespace sluice::cli
