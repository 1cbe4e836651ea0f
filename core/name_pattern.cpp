#include "core/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/error.h"

namespace sluice {

bool matches_pattern(const std::string& pattern, const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

void require_matches(const std::string& subject, const std::string& pattern, const std::vector<std::string>& names) {
  if (std::ranges::any_of(names, [&](const std::string& name) { return matches_pattern(pattern, name); })) return;
  const std::string nearest = nearest_word(pattern, names);
  const std::string example = !nearest.empty() ? nearest : names.empty() ? "" : names.front();
  throw UsageError(join(subject, ": needs a pattern that says one of the ", names.size(), " parameters, got '", pattern, "'",
                        example.empty() ? "" : "; there is '" + example + "', and 'NODE.*' says all of a node"));
}

}  // namespace sluice
