#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/group/deadline.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// Which heartbeats a rank has heard, and of whom it should have heard one.
/// Threads  any.
class HeartbeatRecord {
 public:
  HeartbeatRecord(int rank, int size) : rank_(rank), heard_(size) {}

  /// The text of a heartbeat, and that of one which came.
  static std::string text(const std::string& host, const std::string& status) { return host + '\n' + status; }
  void hear(int from, const std::string& text);
  std::vector<std::optional<Heartbeat>> latest() const;
  void set_watchdog(double seconds);
  /// Why the first rank that is silent for too long has failed; empty while there is none. Has to be called many times a second: time in
  /// which it was not called counts for nobody, because this process itself was stopped then.
  std::string silence();
  /// Whether that rank is silent for too long.
  bool is_silent(int rank) const;
  /// The rank, and its host once that is known.
  std::string name_of(int rank) const;

 private:
  struct Heard {
    SteadyClock::time_point time = SteadyClock::now();
    bool is_known = false;
    std::string host, status;
  };

  bool locked_is_silent(int rank) const;
  bool hears(int rank) const { return rank != rank_ && (rank_ == 0 || rank == 0); }
  std::string locked_name_of(int rank) const;

  mutable std::mutex mutex_;
  const int rank_;
  std::vector<Heard> heard_;
  double watchdog_seconds_ = 0;
  SteadyClock::time_point last_look_ = SteadyClock::now();
};

}  // namespace sluice::parallel
