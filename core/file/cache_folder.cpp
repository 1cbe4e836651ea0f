#include "core/file/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace sluice {

std::filesystem::path user_cache_folder() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value ? value : "");
  };
  if (const auto own = folder("SLUICE_CACHE_DIR"); !own.empty()) return own;
  if (const auto caches = folder("XDG_CACHE_HOME"); !caches.empty()) return caches / "sluice";
  if (const auto home = folder("HOME"); !home.empty()) return home / ".cache" / "sluice";
  return {};
}

}  // namespace sluice
