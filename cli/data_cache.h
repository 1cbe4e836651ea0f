#pragma once
#include <filesystem>

#include "cli/config.h"
#include "cli/messages.h"
#include "core/device.h"
#include "core/file/cache_folder.h"

namespace sluice::cli {

/// What `make` makes with the folder of data.cache; without one, and with a warning, where that cannot be written. What `make` reads beside it
/// is read before: an error of the data is none of the cache.
template <class F>
auto with_cache(const Settings& settings, F make) {
  const auto cannot = [&](const std::exception& error) {
    warn(join("data.cache: ", error.what(), "; going on without a cache"));
    return make(std::filesystem::path());
  };
  const std::string& chosen = settings.text("data.cache");
  try {
    return make(chosen.empty() ? user_cache_folder() : std::filesystem::path(chosen));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const ResourceError& error) {
    return cannot(error);
  } catch (const std::filesystem::filesystem_error& error) {
    return cannot(error);
  }
}

}  // namespace sluice::cli
