#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace sluice::cli {

/// The value of every key: the table's initial values, over them a config file, over that --set.
/// Which keys there are depends on a few of them, such as model.name (Option::conditions): see drop_foreign().
/// Errors  UsageError naming where it was set (file:line:column or the --set), the key, what is legal and what came.
class Settings {
 public:
  Settings();

  /// Reads a config's text; `name` is its file for messages.
  void read(std::string_view toml, const std::string& name);
  /// One "table.key=value". Texts need no quotes.
  void set(const std::string& assignment);

  /// Whether the model, data set and optimizer that are chosen have this key.
  bool applies(const Option& option) const;
  /// Gives keys that do not apply their initial values again. Returns a note for each that a config file had set.
  /// Errors  UsageError for one that was set by --set.
  std::vector<std::string> drop_foreign();
  /// Errors  UsageError for the first key that was set and does not apply, naming where.
  void refuse_foreign() const;
  /// Where the key was set, "c.toml:3:1" or "--set train.steps=3"; empty for an initial value.
  std::string origin(std::string_view name) const;

  int64_t integer(std::string_view name) const;  ///< 0 for "auto"
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool is_text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  /// A list; a text with commas counts as one.
  std::vector<std::string> texts(std::string_view name) const;

  const OptionValue& value(std::string_view name) const { return values_.find(name)->second; }

  /// All keys that apply as a config file that reads back to the same settings.
  std::string toml() const;

 private:
  template <class T>
  const T& get(std::string_view name) const;
  struct Origin {
    std::string where;
    bool is_file;
  };
  void store(const Option& option, OptionValue value, const Origin& origin);
  std::string foreign_text(const Option& option) const;

  std::map<std::string, OptionValue, std::less<>> values_;
  std::map<std::string, Origin, std::less<>> origins_;
};

/// The file of a config given by path or by name: models/configs of the source tree, the installed ones, those beside the program.
/// Errors  UsageError naming the known ones.
std::filesystem::path find_config(const std::string& name);

/// The settings of a config file with --set assignments over them. Keys of the file that an assignment made foreign are told to note().
/// Errors  also UsageError for a file that cannot be read, or that is none.
Settings read_settings(const std::string& name, const std::vector<std::string>& assignments);

}  // namespace sluice::cli
