#include "cli/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <sstream>

#include "build_config.h"
#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/list_text.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "core/error.h"
#include "core/utf8.h"
#include "parallel/group/job.h"
#include "parallel/run/run_errors.h"

namespace sluice::cli {

namespace {

/// The parser of the command line, made from the command table; what is parsed lands in `arguments` and `chosen`.
class Parser {
 public:
  Parser() {
    app_.require_subcommand(0, 1);
    app_.footer(exit_code_help());
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
      flush_result();
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
    if (command.argument.find("CONFIG") != std::string_view::npos) parsed.app->footer(config_help() + "\n" + exit_code_help());
  }

  int run_parsed() {
    if (version_) fmt::print("sluice {}\n", build::version);
    if (man_) fmt::print("{}", man_page());
    if (!completion_.empty()) fmt::print("{}", completion(completion_));
    flush_result();
    if (version_ || man_ || !completion_.empty()) return 0;
    for (const auto& parsed : parsed_)
      if (parsed->app->parsed()) return run(*parsed);
    fmt::print("{}", app_.help());
    flush_result();
    return 0;
  }

  static int run(const Parsed& parsed) {
    require(parsed.command->runs_on_ranks || parallel::launched_ranks() <= 1, "sluice ", parsed.command->name,
            ": runs as one process, got ", parallel::launched_ranks(), " ranks of a launcher; start it without one");
    const int code = parsed.command->run(arguments_of(parsed));
    if (parsed.command->prints_result) flush_result();
    return code;
  }

  static Arguments arguments_of(const Parsed& parsed) {
    Arguments arguments;
    arguments.argument = parsed.argument;
    for (const Flag& flag : parsed.command->flags) {
      if (flag.value.empty()) continue;
      const auto& values = parsed.values.at(std::string(flag.name));
      require(values.size() <= 1 || flag.repeated, flag.name, ": needs to be given once, got ", values.size(), " of it");
      for (const auto& value : values) require(!value.empty(), flag.name, ": needs ", flag.value, ", got an empty text; give one");
      if (!values.empty()) arguments.values[std::string(flag.name)] = values;
    }
    for (const auto& [flag, given] : parsed.switches)
      if (given) arguments.values[flag] = {""};
    return arguments;
  }

  /// The commands that have a flag.
  static std::string owners_of(const std::string& flag) {
    std::vector<std::string> owners;
    for (const Command& command : commands())
      if (std::ranges::find(command.flags, flag, &Flag::name) != command.flags.end()) owners.emplace_back(command.name);
    return list_text(owners, ", ");
  }

  /// Whether a command was given that takes keys.
  bool takes_keys() const {
    return std::ranges::any_of(parsed_, [](const auto& parsed) { return parsed->app->parsed() && parsed->values.contains("--set"); });
  }

  /// The keys of a config that are called as a flag that is not known: train.steps for --steps=5.
  static std::string keys_called(const std::string& flag) {
    if (!flag.starts_with("--")) return "";
    std::string name = flag.substr(2, flag.find('=') - 2);
    std::ranges::replace(name, '-', '_');
    std::vector<std::string> settings;
    for (const std::string& key : options_called(name)) settings.push_back(join("'--set ", key, "=...'"));
    return list_text(settings, " or ");
  }

  /// The parser's message, with the nearest flag, key or command when a word was not known.
  std::string explain(const std::string& message) const {
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
        if (const std::string owners = owners_of(word); !owners.empty()) return join(message, "; that is a flag of ", owners);
      for (const std::string& word : words)
        if (const std::string keys = takes_keys() ? keys_called(word) : ""; !keys.empty())
          return join(message, "; did you mean ", keys, "?");
      for (const std::string& word : words)
        if (const std::string nearest = nearest_word(word, known); !nearest.empty() && nearest != word)
          return join(message, "; did you mean '", nearest, "'?");
    }
    return message + "; see sluice --help";
  }

  CLI::App app_{"Train models as pipelines over several devices.", "sluice"};
  bool version_ = false, man_ = false;
  std::string completion_;
  std::vector<std::unique_ptr<Parsed>> parsed_;
};

/// A program may be started with a standard stream closed; the next file that is opened, such as a lock or a checkpoint, would take its
/// place and its output. What stands in instead refuses what the stream is for, so that lost output stays an error.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/// Threads get as much stack as the limit of the first one is (ulimit -s), and with less than kernels need they end the process.
void give_threads_stacks() {
  constexpr size_t kLeast = 1 << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  size_t bytes = 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < kLeast && pthread_attr_setstacksize(&attributes, kLeast) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

/// Texts of the command line become names of files and values in JSON and TOML, which are UTF-8.
void check_is_utf8(int argument_count, char** arguments) {
  for (int i = 1; i < argument_count; ++i) {
    const std::string_view text = arguments[i];
    const size_t invalid = first_invalid_utf8(text);
    require(invalid == text.npos, "command line: needs UTF-8, got byte ", invalid, " of argument ", i, " (after '", text.substr(0, invalid),
            "'), which is none; rename the file, or set the terminal's encoding");
  }
}

}  // namespace

int run_program(int argument_count, char** arguments) try {
  fill_closed_streams();
  give_threads_stacks();
  check_is_utf8(argument_count, arguments);
  return Parser().run(argument_count, arguments);
} catch (const parallel::HangError& error) {
  tell_error(explain(error));
  end_process(exit_code_of(error));
} catch (const std::exception& error) {
  tell_error(explain(error));
  return exit_code_of(error);
}

}  // namespace sluice::cli
