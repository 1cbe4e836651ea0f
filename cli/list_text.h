#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// The items with `between` between them. (fmt::join warns of a string overflow that is none, on g++ 12 with optimization.)
template <class T>
std::string list_text(const std::vector<T>& items, std::string_view between) {
  std::ostringstream text;
  for (size_t i = 0; i < items.size(); ++i) text << (i == 0 ? "" : between) << items[i];
  return std::move(text).str();
}

}  // namespace sluice::cli
