#pragma once
#include <string>
#include <vector>

namespace sluice {

/// Loads a shared library: by its name as the system finds it (LD_LIBRARY_PATH, then its own folders), else from the first of `folders`
/// that has a usable one. It stays loaded for the life of the process, where others find it by its name.
/// Errors   null, and what was said of every place in `reason`.
/// Threads  any.
void* open_library(const std::string& name, const std::vector<std::string>& folders, std::string& reason);

}  // namespace sluice
