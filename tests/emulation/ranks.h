#pragma once
#include <cstdint>
#include <map>
#include <thread>

namespace sluice::emulation {

/// Which threads wait for other ranks, so that a test tells ranks that hang from slow ones. A thread that waits looks again and again; what
/// it looks for can only come by a change. So threads that all looked after the last change, and found nothing, wait for ever.
/// Threads  the one that holds the runtime's mutex.
class Ranks {
 public:
  void note_change() { ++changes_; }
  uint64_t changes() const { return changes_; }
  /// The calling thread has looked in vain.
  void note_wait() { seen_[std::this_thread::get_id()] = changes_; }
  void note_end_of_wait() { seen_.erase(std::this_thread::get_id()); }
  /// How many threads have looked in vain since the last change.
  int stuck() const;

  /// Makes all waits fail, now and later, until `reset`.
  void tear_down() { are_torn_down_ = true; }
  bool are_torn_down() const { return are_torn_down_; }
  void reset();

 private:
  uint64_t changes_ = 0;
  std::map<std::thread::id, uint64_t> seen_;  ///< by waiting thread: the changes that it knew of
  bool are_torn_down_ = false;
};

}  // namespace sluice::emulation
