#pragma once
#include <string>
#include <vector>

namespace sluice {

/// Whether a name is one that the pattern says: '*' stands for any letters, none too and dots among them, '?' for one, "[ab]" for one of those.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// Throws unless the pattern says one of the names at least.
/// Errors  UsageError that begins with `subject` and names one of `names` that is near, or the first.
void require_matches(const std::string& subject, const std::string& pattern, const std::vector<std::string>& names);

}  // namespace sluice
