#pragma once
#include <filesystem>

namespace sluice {

/// Where this user's programs keep what can be made again: $SLUICE_CACHE_DIR, else sluice in $XDG_CACHE_HOME or ~/.cache; empty where
/// none of them is set.
std::filesystem::path user_cache_folder();

}  // namespace sluice
