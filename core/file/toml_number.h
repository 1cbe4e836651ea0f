#pragma once
#include <toml++/toml.h>

#include <optional>

namespace sluice {

/// A number of TOML, with a point or without. An integer that no double equals is the nearest one, as it would be with a point; toml++ gives
/// nothing for it. Nothing for what is no number, or not there.
inline std::optional<double> number_of(toml::node_view<const toml::node> node) {
  if (const auto integer = node.value_exact<int64_t>()) return static_cast<double>(*integer);
  return node.value_exact<double>();
}

}  // namespace sluice
