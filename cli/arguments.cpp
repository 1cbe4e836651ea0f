#include "cli/arguments.h"

#include <charconv>

#include "core/error.h"

namespace sluice::cli {

namespace {

template <class T>
T parsed(std::string_view flag, const std::string& text, T minimum, T maximum) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ok = error == std::errc() && end == text.data() + text.size() && minimum <= value && value <= maximum;
  require(ok, flag, ": needs a number from ", minimum, " to ", maximum, ", got '", text, "'");
  return value;
}

}  // namespace

std::string Arguments::text(std::string_view flag, const std::string& otherwise) const {
  const auto found = values.find(flag);
  return found == values.end() ? otherwise : found->second.back();
}

std::vector<std::string> Arguments::list(std::string_view flag) const {
  const auto found = values.find(flag);
  return found == values.end() ? std::vector<std::string>{} : found->second;
}

int64_t Arguments::integer(std::string_view flag, int64_t otherwise, int64_t minimum, int64_t maximum) const {
  return has(flag) ? parsed<int64_t>(flag, text(flag), minimum, maximum) : otherwise;
}

double Arguments::number(std::string_view flag, double otherwise, double minimum, double maximum) const {
  return has(flag) ? parsed<double>(flag, text(flag), minimum, maximum) : otherwise;
}

}  // namespace sluice::cli
