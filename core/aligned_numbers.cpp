#include "core/aligned_numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <span>

namespace sluice {

namespace {

constexpr int kDigits = 4;  // after the point, at most

template <class T, class... Format>
std::string text_of(T value, Format... format) {
  std::array<char, 512> text;  // the longest f64 has 310 digits before its point
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr};
}

/// "-12", "5" and "e+10" of -12.5e+10.
struct Parts {
  explicit Parts(const std::string& text) {
    const size_t e = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), e);
    whole = text.substr(0, point);
    fraction = text.substr(std::min(point + 1, e), e - std::min(point + 1, e));
    exponent = text.substr(e);
  }
  std::string whole, fraction, exponent;
};

/// The fewest digits that tell the value from its neighbours, kDigits after the point at most.
template <class T>
Parts shortest(T value, std::chars_format format) {
  Parts parts(text_of(value, format));
  if (parts.fraction.size() <= kDigits) return parts;
  parts = Parts(text_of(value, format, kDigits));
  parts.fraction.erase(parts.fraction.find_last_not_of('0') + 1);
  return parts;
}

template <class T>
bool needs_exponents(std::span<const T> values) {
  T least = 0, largest = 0;
  for (const T value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    least = largest == 0 ? std::abs(value) : std::min(least, std::abs(value));
    largest = std::max(largest, std::abs(value));
  }
  const T limit = sizeof(T) == 8 ? T(1e8) : T(1e6);
  return largest != 0 && (largest >= limit || least < T(0.0001) || largest / least > 1000);
}

/// Characters before the point, after it, and in all of an exponent.
struct Columns {
  size_t before = 0, fraction = 0, exponent = 0;
  size_t after() const { return fraction + exponent; }
  size_t width() const { return before + 1 + after(); }

  void cover(const Parts& parts) {
    before = std::max(before, parts.whole.size());
    fraction = std::max(fraction, parts.fraction.size());
    exponent = std::max(exponent, parts.exponent.size());
  }
  void cover_word(size_t characters) { before = std::max(before + 1 + after(), characters) - 1 - after(); }
};

std::string padded(const std::string& text, size_t width) { return std::string(width - std::min(width, text.size()), ' ') + text; }

template <class T>
Columns columns_of(std::span<const T> values, std::chars_format format) {
  Columns columns;
  bool is_finite = true, is_negative = false;
  for (const T value : values) {
    if (std::isfinite(value)) columns.cover(shortest(value, format));
    is_finite = is_finite && std::isfinite(value);
    is_negative = is_negative || (std::isinf(value) && value < 0);
  }
  if (!is_finite) columns.cover_word(is_negative ? 4 : 3);
  return columns;
}

std::string word_of(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

template <class T>
std::string positional(T value, const Columns& columns) {
  const Parts parts = shortest(value, std::chars_format::fixed);
  return padded(parts.whole, columns.before) + "." + parts.fraction + std::string(columns.fraction - parts.fraction.size(), ' ');
}

/// With as many digits as the other numbers, after the point and of the exponent.
template <class T>
std::string scientific(T value, const Columns& columns) {
  Parts parts(text_of(value, std::chars_format::scientific, static_cast<int>(columns.fraction)));
  parts.exponent.insert(2, columns.exponent - parts.exponent.size(), '0');
  return padded(parts.whole, columns.before) + "." + parts.fraction + parts.exponent;
}

template <std::floating_point T>
std::vector<std::string> aligned(std::span<const T> values) {
  const bool has_exponents = needs_exponents(values);
  const Columns columns = columns_of(values, has_exponents ? std::chars_format::scientific : std::chars_format::fixed);
  std::vector<std::string> texts;
  for (const T value : values)
    texts.push_back(!std::isfinite(value) ? padded(word_of(value), columns.width())
                    : has_exponents       ? scientific(value, columns)
                                          : positional(value, columns));
  return texts;
}

template <std::integral T>
std::vector<std::string> aligned(std::span<const T> values) {
  std::vector<std::string> texts;
  size_t width = 0;
  for (const T value : values) width = std::max(width, texts.emplace_back(text_of(value)).size());
  for (auto& text : texts) text = padded(text, width);
  return texts;
}

std::vector<std::string> aligned(std::span<const bfloat16> values) {
  const std::vector<float> floats(values.begin(), values.end());
  return aligned(std::span<const float>(floats));
}

}  // namespace

std::vector<std::string> aligned_numbers(const Tensor& x) {
  return on_any(x.dtype(), "print", [&]<class T>() { return aligned(std::span<const T>(x.data<T>(), static_cast<size_t>(x.elements()))); });
}

}  // namespace sluice
