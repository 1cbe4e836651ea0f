#include "cli/help.h"

#include <fmt/core.h>

#include "build_config.h"
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "core/error.h"

namespace sluice::cli {

namespace {

std::string_view table_of(const Option& option) { return option.name.substr(0, option.name.find('.')); }
std::string_view key_of(const Option& option) { return option.name.substr(table_of(option).size() + 1); }

/// Text for man(7): a line may not begin with a dot, and dashes and backslashes are escaped.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '-' || letter == '\\') escaped += '\\';
    escaped += letter == '\\' ? 'e' : letter;
  }
  return "\\&" + escaped;
}

std::string usage_of(const Command& command) {
  return command.argument.empty() ? std::string(command.name) : fmt::format("{} {}", command.name, command.argument);
}

std::string command_names() {
  std::string names;
  for (const Command& command : commands()) names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
  return names;
}

/// "table.key=" of every key, for --set.
std::string settable_keys() {
  std::string keys;
  for (const Option& option : options()) keys += fmt::format("{}{}=", keys.empty() ? "" : " ", option.name);
  return keys;
}

std::string bash_completion() {
  std::string cases;
  for (const Command& command : commands()) {
    std::string flags = "--help";
    for (const Flag& flag : command.flags) flags += fmt::format(" {}", flag.name);
    cases += fmt::format("    {}) words='{}' ;;\n", command.name, flags);
  }
  return fmt::format(R"(# bash completion of sluice: source <(sluice --completion bash)
_sluice() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  if [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W '{} --help --version --man --completion' -- "$word"))
    return
  fi
  if [[ ${{COMP_WORDS[COMP_CWORD-1]}} == --set ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -W '{}' -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _sluice sluice
)",
                     command_names(), settable_keys(), cases);
}

/// zsh runs bash's completions by itself.
std::string zsh_completion() {
  return "# zsh completion of sluice: source <(sluice --completion zsh)\nautoload -U +X bashcompinit && bashcompinit\n" + bash_completion();
}

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' || letter == '\\' ? fmt::format("\\{}", letter) : std::string(1, letter);
  return quoted + "'";
}

std::string fish_completion() {
  std::string text = "# fish completion of sluice: sluice --completion fish | source\n";
  for (const Command& command : commands()) {
    text += fmt::format("complete -c sluice -n __fish_use_subcommand -a {} -d {}\n", command.name, fish_quoted(command.help));
    for (const Flag& flag : command.flags) {
      const std::string words = flag.name == "--set" ? " -a " + fish_quoted(settable_keys()) : "";
      text += fmt::format("complete -c sluice -n '__fish_seen_subcommand_from {}' -l {}{}{} -d {}\n", command.name, flag.name.substr(2),
                          flag.value.empty() ? "" : " -r", words, fish_quoted(flag.help));
    }
  }
  return text;
}

}  // namespace

std::string exit_code_help() {
  std::string text = "Exit codes:\n";
  for (const ExitCode& row : exit_codes()) text += fmt::format("  {:<4} {}\n", row.code, row.meaning);
  return text;
}

std::string config_help() {
  std::string text = "Config keys (a TOML file, or --set table.key=value):\n";
  std::string_view current;
  for (const Option& option : options()) {
    if (table_of(option) != current) text += fmt::format("\n[{}]\n", current = table_of(option));
    text += fmt::format("  {:<20} {}\n  {:<20} {}; default {}\n", key_of(option), option.help, "", describe_type(option),
                        toml_text(option.initial));
    if (!option.conditions.empty()) text += fmt::format("  {:<20} only with {}\n", "", describe_conditions(option));
  }
  return text;
}

std::string man_page() {
  std::string text =
      fmt::format(".TH SLUICE 1 \"\" \"sluice {}\"\n.SH NAME\nsluice \\- train models by pipelines over several devices\n", build::version);
  text += ".SH SYNOPSIS\n";
  for (const Command& command : commands()) text += fmt::format(".B sluice\n{} [flags]\n.br\n", roff(usage_of(command)));
  text += ".SH COMMANDS\n";
  for (const Command& command : commands()) {
    text += fmt::format(".SS {}\n{}\n", roff(usage_of(command)), roff(command.help));
    for (const Flag& flag : command.flags) text += fmt::format(".TP\n.B {} {}\n{}\n", roff(flag.name), roff(flag.value), roff(flag.help));
  }
  text += ".SH CONFIG KEYS\nA config is a TOML file; every key may also be set by \\-\\-set.\n";
  std::string_view current;
  for (const Option& option : options()) {
    if (table_of(option) != current) text += fmt::format(".SS [{}]\n", current = table_of(option));
    text +=
        fmt::format(".TP\n.B {}\n{}: {}; default {}{}\n", key_of(option), roff(option.help), roff(describe_type(option)),
                    roff(toml_text(option.initial)), roff(option.conditions.empty() ? "" : "; only with " + describe_conditions(option)));
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCode& row : exit_codes()) text += fmt::format(".TP\n.B {}\n{}\n", row.code, roff(row.meaning));
  return text;
}

std::string completion(std::string_view shell) {
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  throw UsageError(join("--completion: needs bash, zsh or fish, got '", shell, "'"));
}

}  // namespace sluice::cli
