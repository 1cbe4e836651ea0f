#include "core/cuda/open_library.h"

#include <dlfcn.h>

namespace sluice {

void* open_library(const std::string& name, const std::vector<std::string>& folders, std::string& reason) {
  std::vector<std::string> places{name};
  for (const std::string& folder : folders) places.push_back(folder + "/" + name);
  reason.clear();
  for (const std::string& place : places) {
    if (void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reason += (reason.empty() ? "" : "; ") + std::string(dlerror());
  }
  return nullptr;
}

}  // namespace sluice
