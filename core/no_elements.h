#pragma once
#include "core/error.h"

namespace sluice {

/// Elements were read of a tensor on a `meta` device, which only counts.
struct NoElements : UsageError {
  using UsageError::UsageError;
};

}  // namespace sluice
