#include "core/suggestion.h"

#include <algorithm>

#include "core/error.h"

namespace sluice {

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kMostListed = 12;
  if (const std::string nearest = nearest_word(word, candidates); !nearest.empty()) return "; did you mean '" + nearest + "'?";
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kMostListed); ++i) list += (i == 0 ? "; known are " : ", ") + candidates[i];
  return list + (candidates.size() > kMostListed ? ", ..." : "");
}

}  // namespace sluice
