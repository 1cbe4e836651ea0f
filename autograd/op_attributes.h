#pragma once
#include <any>
#include <ostream>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/tensor.h"

namespace sluice {

/// Writes what is known how to write: numbers, shapes, lists and pairs of these, and what has a fields(), which gives a tuple of its members. Of
/// another type nothing.
template <class T>
void write_attribute(std::ostream& out, const T& value) {
  const auto all = [&](const auto&... parts) { (write_attribute(out, parts), ...); };
  if constexpr (std::is_enum_v<T>)
    out << ' ' << static_cast<int64_t>(value);
  else if constexpr (std::is_arithmetic_v<T>)
    out << ' ' << +value;
  else if constexpr (std::is_same_v<T, Shape>)
    out << ' ' << value.text();
  else if constexpr (requires { value.fields(); })
    std::apply(all, value.fields());
  else if constexpr (requires { value.begin(); })
    for (const auto& element : value) all(element);
  else if constexpr (requires { value.first; })
    all(value.first, value.second);
}

/// The small constants of an op (axis, epsilon, ...), of any type that can be copied.
class OpAttributes {
 public:
  OpAttributes() = default;
  OpAttributes(std::any value) : value_(std::move(value)) {}  // NOLINT: an op's constants read as they are
  template <class T>
  requires(!std::is_same_v<T, OpAttributes> && !std::is_same_v<T, std::any>) OpAttributes(T value)  // NOLINT: as above
      : value_(std::move(value)), write_([](std::ostream& out, const std::any& any) { write_attribute(out, *std::any_cast<T>(&any)); }) {}

  /// Errors  std::bad_any_cast for another type than that of what was given.
  template <class T>
  const T& as() const {
    return std::any_cast<const T&>(value_);
  }
  /// As write_attribute() does.
  void write(std::ostream& out) const {
    if (write_) write_(out, value_);
  }

 private:
  std::any value_;
  void (*write_)(std::ostream&, const std::any&) = nullptr;
};

}  // namespace sluice
