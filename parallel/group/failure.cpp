#include "parallel/group/failure.h"

#include <utility>

#include "core/error.h"

namespace sluice::parallel {

bool Failure::set(const std::string& text, bool is_own) {
  std::lock_guard lock(mutex_);
  if (is_set_) return false;
  text_ = text;
  is_own_ = is_own;
  is_set_ = true;
  return true;
}

std::string Failure::text() const {
  std::lock_guard lock(mutex_);
  return text_;
}

void Failure::check() const {
  if (is_set_) throw CommError(text());
}

void Failure::set_hook(Hook hook) {
  {
    std::lock_guard lock(hook_mutex_);
    hook_ = std::move(hook);
  }
  call_hook();
}

void Failure::call_hook() {
  if (!is_set_ || is_own_) return;
  std::lock_guard lock(hook_mutex_);
  if (!hook_ || was_called_) return;
  was_called_ = true;
  hook_(text());
}

}  // namespace sluice::parallel
