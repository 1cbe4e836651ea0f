#pragma once
#include <unistd.h>

#include <string>

namespace sluice::parallel {

/// Of this machine; "unknown" where the system does not say.
inline std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace sluice::parallel
