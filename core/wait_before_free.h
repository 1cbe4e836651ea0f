#pragma once
#include "core/error.h"
#include "core/event.h"

namespace sluice {

/// Blocks until the event has passed, before memory is freed that work up to it may use. That a GPU failed counts as passed: it has no work
/// left, and its next call tells of it.
inline void wait_before_free(const Event& event) noexcept {
  try {
    wait_until(event);
  } catch (const Error&) {
  }
}

}  // namespace sluice
