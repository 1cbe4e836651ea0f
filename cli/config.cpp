#include "cli/config.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/byte_size.h"
#include "core/error.h"
#include "core/file.h"

namespace sluice::cli {

namespace {

/// What stands in the file, for "got ...".
std::string shown(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
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
      if (!node.is_number()) return false;
      value = node.value<double>().value();
      return true;
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

[[noreturn]] void refuse(const Option& option, const std::string& where, const std::string& got) {
  throw UsageError(join(where, ": ", option.name, ": needs ", describe_type(option), ", got ", got));
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

void Settings::store(const Option& option, OptionValue value, const std::string& where) {
  double measured = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) measured = static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) measured = *number;
  const bool is_measured = std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
  const bool in_range = std::isfinite(measured) && option.minimum <= measured && measured <= option.maximum;
  if (is_measured && !in_range) refuse(option, where, fmt::format("{:g}", measured));

  const auto* text = std::get_if<std::string>(&value);
  const bool is_file = text != nullptr && option.type == OptionType::word_or_csv && text->ends_with(".csv");
  if (text != nullptr && !option.choices.empty() && !is_file &&
      std::find(option.choices.begin(), option.choices.end(), *text) == option.choices.end()) {
    const std::string nearest = nearest_word(*text, option.choices);
    refuse(option, where, join("'", *text, "'", nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  values_.find(option.name)->second = std::move(value);
}

void Settings::read(std::string_view text, const std::string& name) try {
  const toml::table config = toml::parse(text, name);
  for (const auto& [table_name, table] : config) {
    const std::string where = place(name, table.source().begin);
    require(table.is_table(), where, ": key '", table_name.str(), "' needs to stand in a table such as [train]");
    for (const auto& [key, node] : *table.as_table()) {
      const std::string at = place(name, key.source().begin);
      const Option& option = option_at(join(table_name.str(), ".", key.str()), at);
      OptionValue value;
      if (!value_of(option, node, value)) refuse(option, at, shown(node));
      store(option, std::move(value), at);
    }
  }
} catch (const toml::parse_error& error) {
  throw UsageError(join(place(name, error.source().begin), ": no valid TOML: ", error.description()));
}

void Settings::set(const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const size_t equals = assignment.find('=');
  require(equals != std::string::npos, where, ": needs table.key=value");
  const Option& option = option_at(assignment.substr(0, equals), where);
  const std::string text = assignment.substr(equals + 1);
  const bool quoted = !text.empty() && std::string_view("\"'[").find(text[0]) != std::string_view::npos;
  try {
    // A text without quotes is taken as it stands; everything else is TOML.
    const bool is_text = takes_text(option.type) || (option.type == OptionType::integer_or_auto && text == "auto");
    const toml::table parsed = is_text && !quoted ? toml::table{{"value", text}} : toml::parse("value = " + text);
    OptionValue value;
    if (parsed.size() != 1 || !value_of(option, *parsed.get("value"), value)) refuse(option, where, text);
    store(option, std::move(value), where);
  } catch (const toml::parse_error&) {
    refuse(option, where, join("'", text, "'"));
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
    const std::string_view table = option.name.substr(0, option.name.find('.'));
    if (table != current) text += join(text.empty() ? "" : "\n", "[", table, "]\n");
    current = table;
    text += join(option.name.substr(table.size() + 1), " = ", toml_text(values_.find(option.name)->second), "\n");
  }
  return text;
}

Settings read_settings(const std::string& name, const std::vector<std::string>& assignments) {
  const auto file = find_config(name);
  Settings settings;
  settings.read(read_file(file), file.string());
  for (const auto& assignment : assignments) settings.set(assignment);
  return settings;
}

}  // namespace sluice::cli
