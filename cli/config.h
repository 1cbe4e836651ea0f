#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace sluice::cli {

/// The value of every key: the table's initial values, over them a config file, over that --set.
/// Errors  UsageError naming where it was set (file:line:column or the --set), the key, what is legal and what came.
class Settings {
 public:
  Settings();

  /// Reads a config's text; `name` is its file for messages.
  void read(std::string_view toml, const std::string& name);
  /// One "table.key=value". Texts need no quotes.
  void set(const std::string& assignment);

  int64_t integer(std::string_view name) const;  ///< 0 for "auto"
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool is_text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  /// A list; a text with commas counts as one.
  std::vector<std::string> texts(std::string_view name) const;

  const OptionValue& value(std::string_view name) const { return values_.find(name)->second; }

  /// All keys as a config file that reads back to the same settings.
  std::string toml() const;

 private:
  template <class T>
  const T& get(std::string_view name) const;
  void store(const Option& option, OptionValue value, const std::string& where);
  std::map<std::string, OptionValue, std::less<>> values_;
};

/// The file of a config given by path or by name: models/configs of the source tree, the installed ones, those beside the program.
/// Errors  UsageError naming the known ones.
std::filesystem::path find_config(const std::string& name);

/// The settings of a config file with --set assignments over them.
Settings read_settings(const std::string& name, const std::vector<std::string>& assignments);

}  // namespace sluice::cli
