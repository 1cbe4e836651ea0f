#pragma once
#include <deque>
#include <mutex>
#include <type_traits>
#include <utility>

namespace sluice {

/// Keeps a value until the process ends, where leak checkers find it: something that nobody can end may still use it.
/// Threads  any.
template <class T>
void keep_to_the_end(T&& value) {
  static std::mutex mutex;
  static auto& kept = *new std::deque<std::decay_t<T>>;
  std::lock_guard lock(mutex);
  kept.push_back(std::forward<T>(value));
}

}  // namespace sluice
