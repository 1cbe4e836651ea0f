#pragma once
#include <string>
#include <string_view>

/// Texts made from the tables of options.h and exit_codes.h.
namespace sluice::cli {

/// All config keys with type, initial value and meaning, by table.
std::string config_help();
/// All exit codes with their meaning.
std::string exit_code_help();
/// The manual page, in man(7) form.
std::string man_page();
/// A completion script. Errors  UsageError unless `shell` is bash, zsh or fish.
std::string completion(std::string_view shell);

}  // namespace sluice::cli
