#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::cli {

/// What a key of a config file holds.
enum class OptionType {
  integer,
  integer_or_auto,  ///< "auto" or 4
  number,
  boolean,
  text,
  word_or_csv,       ///< one of the choices, or the name of a CSV file
  bytes,             ///< 0 = unlimited; "8GiB", "512MiB" or a number
  text_or_integers,  ///< "auto" or [3, 4, 5]
  text_or_texts,     ///< "cpu:0" or ["cpu:0", "cpu:1"]
};

using OptionValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<std::string>>;

/// A key that decides which other keys there are, such as model.name, and the words under which an option is one of them.
struct Condition {
  std::string_view key;
  std::vector<std::string> words;
};

/// Which ends of a range do not belong to it.
enum class Open { none, minimum, maximum, both };

/// One key of the config. This table is the only list of them: help, man page, completion, config files and --set are made from it.
struct Option {
  std::string_view name;  ///< "table.key"
  OptionType type;
  OptionValue initial;
  std::string_view help;
  std::vector<std::string> choices = {};  ///< legal words of a text; empty = any
  double minimum = std::numeric_limits<double>::lowest();
  double maximum = std::numeric_limits<double>::max();
  Open open = Open::none;
  std::vector<Condition> conditions = {};  ///< all must hold; else the model, data set or optimizer has no such key
  bool may_be_empty = true;                ///< a text, or a list
  bool names_result = false;               ///< a text: a file that is written at the end, or empty
  bool decides_answer = true;              ///< another value may give other weights, in one training or another
};

const std::vector<Option>& options();
/// The key of that name; without one, those of any table that end in it: train.steps for "steps".
std::vector<std::string> options_called(std::string_view name);
/// Errors  UsageError naming the nearest key.
const Option& option_named(std::string_view name);

/// "an integer from 1 to 100", "one of gpipe, 1f1b": what a key takes, in words.
std::string describe_type(const Option& option);
/// "data.kind = text, idx"; empty for a key that is always there.
std::string describe_conditions(const Option& option);
/// A value as it stands in a config file.
std::string toml_text(const OptionValue& value);

/// One flag of a command.
struct Flag {
  std::string_view name;   ///< "--set"
  std::string_view value;  ///< what follows it, "FILE"; empty for a switch
  std::string_view help;
  bool repeated = false;
};

class Arguments;

/// One command of the program.
struct Command {
  std::string_view name;
  std::string_view argument;  ///< "CONFIG"; empty for none
  std::string_view help;
  std::vector<Flag> flags;
  int (*run)(const Arguments&);  ///< returns the exit code
  bool prints_result = true;     ///< losing its standard output is an error; the result of a training is its checkpoint
  bool runs_on_ranks = false;    ///< an MPI launcher may start several of it, which work together
};

/// All commands, in the order of the help.
const std::vector<Command>& commands();

}  // namespace sluice::cli
