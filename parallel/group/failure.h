#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace sluice::parallel {

/// What one rank knows of failures: the first that it heard of, and whom to call about it.
/// Threads  any.
class Failure {
 public:
  using Hook = std::function<void(const std::string& failure)>;

  /// Whether it is the first, which alone counts. `is_own`: this rank has failed, which it need not be told.
  bool set(const std::string& text, bool is_own);
  bool is_set() const { return is_set_; }
  /// Empty while there is none.
  std::string text() const;
  /// Errors  CommError when a rank has failed.
  void check() const;
  /// Replaces the hook, after a call of the old one has ended; calls it where another rank has failed already.
  void set_hook(Hook hook);
  /// Calls the hook if another rank has failed and it was not called yet.
  void call_hook();

 private:
  mutable std::mutex mutex_;
  std::string text_;
  bool is_own_ = false;
  std::atomic<bool> is_set_ = false;
  std::mutex hook_mutex_;  // held during a call
  Hook hook_;
  bool was_called_ = false;
};

}  // namespace sluice::parallel
