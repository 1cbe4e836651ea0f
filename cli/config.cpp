#include "cli/config.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "cli/byte_size.h"
#include "cli/messages.h"
#include "core/error.h"
#include "core/file/file.h"
#include "core/file/toml_depth.h"
#include "core/file/toml_number.h"
#include "core/utf8.h"

namespace sluice::cli {

namespace {

/// The start of a text that may be long, for messages.
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, character_start(text, kMost)) + "...";
}

/// What stands in the file, for "got ...".
std::string shown(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return shortened(out.str());
}

std::string place(const std::string& file, const toml::source_position& at) { return join(file, ":", at.line, ":", at.column); }

template <class T>
bool list_of(const toml::node& node, OptionValue& value) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return false;
  std::vector<T> list;
  for (const toml::node& item : *array) {
    const auto element = item.value_exact<T>();
    if (!element) return false;
    list.push_back(*element);
  }
  value = list;
  return true;
}

bool text_of(const toml::node& node, OptionValue& value) {
  if (!node.is_string()) return false;
  value = node.value_exact<std::string>().value();
  return true;
}

bool integer_of(const toml::node& node, OptionValue& value) {
  if (!node.is_integer()) return false;
  value = node.value_exact<int64_t>().value();
  return true;
}

bool number_at(const toml::node& node, OptionValue& value) {
  const auto number = number_of(toml::node_view(node));
  if (number) value = *number;
  return number.has_value();
}

bool bytes_of(const toml::node& node, OptionValue& value) {
  const auto text = node.value_exact<std::string>();
  const auto bytes = text ? parse_bytes(*text) : std::nullopt;
  if (bytes) value = *bytes;
  return bytes || integer_of(node, value);
}

/// Reads a node as the option's type; false when it is of another type.
bool value_of(const Option& option, const toml::node& node, OptionValue& value) {
  switch (option.type) {
    case OptionType::integer:
      return integer_of(node, value);
    case OptionType::integer_or_auto:
      return text_of(node, value) || integer_of(node, value);
    case OptionType::number:
      return number_at(node, value);
    case OptionType::boolean:
      if (!node.is_boolean()) return false;
      value = node.value_exact<bool>().value();
      return true;
    case OptionType::text:
    case OptionType::word_or_csv:
      return text_of(node, value);
    case OptionType::bytes:
      return bytes_of(node, value);
    case OptionType::text_or_integers:
      return text_of(node, value) || list_of<int64_t>(node, value);
    case OptionType::text_or_texts:
      return text_of(node, value) || list_of<std::string>(node, value);
  }
  return false;
}

/// Of a number that others write so, such as ".9" and "5.": how it is written here. Else nothing.
std::string as_toml_writes(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
  return is_number ? fmt::format("; in TOML that is {}", number) : "";
}

[[noreturn]] void refuse(const Option& option, const std::string& where, const std::string& got) {
  throw UsageError(join(where, ": ", option.name, ": needs ", describe_type(option), ", got ", shortened(got)));
}

const Option& option_at(std::string_view name, const std::string& where) {
  try {
    return option_named(name);
  } catch (const UsageError& error) {
    throw UsageError(join(where, ": ", error.what()));
  }
}

bool takes_text(OptionType type) {
  using enum OptionType;
  return type == text || type == word_or_csv || type == bytes || type == text_or_integers || type == text_or_texts;
}

}  // namespace

Settings::Settings() {
  for (const Option& option : options()) values_.emplace(option.name, option.initial);
}

namespace {

/// Refuses a number outside the option's range.
template <class T>
void check_range(const Option& option, const std::string& where, T value) {
  const auto number = static_cast<double>(value);
  const bool open_below = option.open == Open::minimum || option.open == Open::both;
  const bool open_above = option.open == Open::maximum || option.open == Open::both;
  const bool above = open_below ? option.minimum < number : option.minimum <= number;
  const bool below = open_above ? number < option.maximum : number <= option.maximum;
  if (!std::isfinite(number) || !above || !below) refuse(option, where, fmt::format("{}", value));
}

void check_text(const Option& option, const std::string& where, const std::string& text) {
  const bool has_gap = text.empty() || text.starts_with(',') || text.ends_with(',') || text.find(",,") != text.npos;
  const bool is_list = option.type == OptionType::text_or_texts;  // with commas
  if (!option.may_be_empty && (is_list ? has_gap : text.empty())) refuse(option, where, join("'", text, "'"));
  constexpr std::string_view kSwitches[] = {"off", "on", "none", "no", "yes", "false", "true"};
  if (option.names_result && std::ranges::find(kSwitches, text) != std::end(kSwitches))
    refuse(option, where, join("'", text, "', which would be a file of that name; leave it empty for none"));
  const bool is_file = option.type == OptionType::word_or_csv && text.ends_with(".csv");
  const bool is_known = std::ranges::find(option.choices, text) != option.choices.end();
  if (option.choices.empty() || is_file || is_known) return;
  const std::string nearest = nearest_word(text, option.choices);
  refuse(option, where, join("'", text, "'", nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

void check_value(const Option& option, const std::string& where, const OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) check_range(option, where, *integer);
  if (const auto* number = std::get_if<double>(&value)) check_range(option, where, *number);
  if (const auto* text = std::get_if<std::string>(&value)) check_text(option, where, *text);
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  const bool has_gap = texts != nullptr && (texts->empty() || std::ranges::find(*texts, "") != texts->end());
  if (has_gap && !option.may_be_empty) refuse(option, where, texts->empty() ? "[]" : "a list with an empty text");
}

}  // namespace

void Settings::store(const Option& option, OptionValue value, const Origin& origin) {
  check_value(option, origin.where, value);
  values_.find(option.name)->second = std::move(value);
  origins_.insert_or_assign(std::string(option.name), origin);
}

bool Settings::applies(const Option& option) const {
  return std::ranges::all_of(option.conditions, [&](const Condition& condition) {
    return std::ranges::find(condition.words, text(condition.key)) != condition.words.end();
  });
}

std::string Settings::origin(std::string_view name) const {
  const auto found = origins_.find(name);
  return found == origins_.end() ? "" : found->second.where;
}

std::string Settings::foreign_text(const Option& option) const {
  std::string chosen;
  for (const auto& [key, words] : option.conditions) chosen += join(chosen.empty() ? "" : " and ", key, " = ", text(key));
  return join(option.name, ": is a key of ", describe_conditions(option), ", got ", chosen);
}

void Settings::refuse_foreign() const {
  for (const Option& option : options())
    if (const std::string where = origin(option.name); !where.empty() && !applies(option))
      throw UsageError(join(where, ": ", foreign_text(option), "; leave it out"));
}

std::vector<std::string> Settings::drop_foreign() {
  std::vector<std::string> notes;
  for (const Option& option : options()) {
    const auto found = origins_.find(option.name);
    if (found == origins_.end() || applies(option)) continue;
    const auto& [where, is_file] = found->second;
    require(is_file, where, ": ", foreign_text(option), "; leave it out");
    notes.push_back(join(where, ": ", foreign_text(option), "; it is left out"));
    values_.find(option.name)->second = option.initial;
    origins_.erase(found);
  }
  return notes;
}

void Settings::read(std::string_view text, const std::string& name) try {
  check_toml_depth(text, name);
  const toml::table config = toml::parse(text, name);
  for (const auto& [table_name, table] : config) {
    const std::string where = place(name, table.source().begin);
    require(table.is_table(), where, ": key '", table_name.str(), "' needs to stand in a table such as [train]");
    for (const auto& [key, node] : *table.as_table()) {
      const std::string at = place(name, key.source().begin);
      const Option& option = option_at(join(table_name.str(), ".", key.str()), at);
      OptionValue value;
      if (!value_of(option, node, value)) refuse(option, at, shown(node));
      store(option, std::move(value), {at, true});
    }
  }
} catch (const toml::parse_error& error) {
  throw UsageError(join(place(name, error.source().begin), ": no valid TOML: ", error.description()));
}

void Settings::set(const std::string& assignment) {
  const std::string where = "--set " + shortened(assignment);
  const size_t equals = assignment.find('=');
  require(equals != std::string::npos, where, ": needs table.key=value");
  const Option& option = option_at(assignment.substr(0, equals), where);
  const std::string text = assignment.substr(equals + 1);
  const bool quoted = !text.empty() && std::string_view("\"'[").find(text[0]) != std::string_view::npos;
  try {
    // A text without quotes is taken as it stands; everything else is TOML.
    check_toml_depth(text, where);
    const bool is_text = takes_text(option.type) || (option.type == OptionType::integer_or_auto && text == "auto");
    const toml::table parsed = is_text && !quoted ? toml::table{{"value", text}} : toml::parse("value = " + text);
    OptionValue value;
    if (parsed.size() != 1 || !value_of(option, *parsed.get("value"), value)) refuse(option, where, text);
    store(option, std::move(value), {where, false});
  } catch (const toml::parse_error&) {
    refuse(option, where, join("'", text, "'", as_toml_writes(text)));
  }
}

template <class T>
const T& Settings::get(std::string_view name) const {
  return std::get<T>(values_.find(name)->second);
}

int64_t Settings::integer(std::string_view name) const { return is_text(name) ? 0 : get<int64_t>(name); }
double Settings::number(std::string_view name) const { return get<double>(name); }
bool Settings::flag(std::string_view name) const { return get<bool>(name); }
const std::string& Settings::text(std::string_view name) const { return get<std::string>(name); }
bool Settings::is_text(std::string_view name) const { return std::holds_alternative<std::string>(values_.find(name)->second); }
std::vector<int64_t> Settings::integers(std::string_view name) const { return get<std::vector<int64_t>>(name); }

std::vector<std::string> Settings::texts(std::string_view name) const {
  if (!is_text(name)) return get<std::vector<std::string>>(name);
  std::vector<std::string> list;
  std::istringstream rest(text(name));
  for (std::string item; std::getline(rest, item, ',');) list.push_back(item);
  return list;
}

std::string Settings::toml() const {
  std::string text;
  std::string_view current;
  for (const Option& option : options()) {
    if (!applies(option)) continue;
    const std::string_view table = option.name.substr(0, option.name.find('.'));
    if (table != current) text += join(text.empty() ? "" : "\n", "[", table, "]\n");
    current = table;
    text += join(option.name.substr(table.size() + 1), " = ", toml_text(values_.find(option.name)->second), "\n");
  }
  return text;
}

namespace {

/// A config that cannot be read is a mistake of the command line, not of data.
std::string read_config(const std::filesystem::path& file) {
  constexpr int64_t kMostBytes = 1 << 24;
  std::error_code unreadable;
  const auto bytes = std::filesystem::file_size(file, unreadable);
  require(unreadable || bytes <= kMostBytes, file.string(), ": needs a config of at most ", kMostBytes, " bytes, got ", bytes);
  try {
    return read_file(file);
  } catch (const DataError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

Settings read_settings(const std::string& name, const std::vector<std::string>& assignments) {
  const auto file = find_config(name);
  Settings settings;
  settings.read(read_config(file), file.string());
  settings.refuse_foreign();
  for (const auto& assignment : assignments) settings.set(assignment);
  for (const auto& left_out : settings.drop_foreign()) note(left_out);
  // A schedule from a file is for a number of micro-batches of its own.
  const bool is_open = settings.text("pipeline.schedule").ends_with(".csv") && settings.origin("pipeline.micro_batches").empty();
  if (is_open) settings.set("pipeline.micro_batches=auto");
  return settings;
}

}  // namespace sluice::cli
