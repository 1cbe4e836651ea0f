#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>

#include "core/error.h"
#include "parallel/group/deadline.h"
#include "parallel/group/failure.h"
#include "parallel/group/group.h"
#include "parallel/group/heartbeat_record.h"
#include "parallel/group/mpi_control.h"
#include "parallel/group/mpi_library.h"
#include "parallel/group/mpi_traffic.h"

namespace sluice::parallel {

/// Into how large pieces long messages are cut; MPI 3 counts bytes in an int.
inline constexpr size_t kMpiPieceBytes = size_t{1} << 30;

/// The processes that an MPI launcher started. No call waits inside MPI, which would spin, could not be ended, and may hang when a rank has
/// died; all calls ask, and a thread of the group asks in their stead while nobody waits.
class MpiGroup : public Group {
 public:
  /// `library`  whose start() gave `rank`, `size` and `tag_limit`; lives as long as the process.
  MpiGroup(const MpiLibrary& library, int rank, int size, int tag_limit, size_t piece_bytes = kMpiPieceBytes);
  ~MpiGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int channel_count() const override { return channels_; }

  RequestPtr send(int to, int channel, std::span<const std::byte> bytes) override;
  RequestPtr receive(int from, int channel, std::span<std::byte> room) override;
  bool wait(const Request& request, double seconds) override;
  void tell(int to, std::string message) override;
  std::string hear(int from, double seconds) override;

  void abort(const std::string& reason) override;
  std::string failure() const override { return failure_.text(); }
  void on_failure(std::function<void(const std::string&)> hook) override { failure_.set_hook(std::move(hook)); }
  void set_status(std::function<std::string()> status) override;
  std::vector<std::optional<Heartbeat>> heartbeats() const override { return heartbeats_.latest(); }
  void set_watchdog(double seconds) override { heartbeats_.set_watchdog(seconds); }
  void close(double seconds) override;

 private:
  void check(const char* call, int peer, int channel) const;
  /// Runs `call` while nobody else is inside MPI, where nobody stays.
  template <class Call>
  std::invoke_result_t<Call> with_mpi(const Call& call) {
    std::lock_guard lock(mpi_mutex_);
    return call();
  }

  /// The same for what nobody called for: it never throws, and when MPI fails the rank does.
  template <class Call>
  void try_with_mpi(std::unique_lock<std::mutex> lock, const Call& call) {
    if (!lock || has_ended_) return;
    try {
      call();
    } catch (const CommError& error) {
      has_ended_ = true;  // the state of MPI is unsure
      failure_.set(join("rank ", rank_, " (on host ", host_, "): ", error.what()), false);
    }
  }

  bool wait_until(double seconds, const std::function<bool()>& is_over);
  /// Looks at all that is under way, unless somebody else does; nobody waits for it.
  void poll();
  void deliver(ControlKind kind, int from, std::string message);
  std::optional<std::string> take(int from);

  void progress(const std::stop_token& stop);
  std::chrono::microseconds period() const;
  void send_heartbeats();
  void fail(const std::string& text, bool is_own);
  void call_hook_once();

  void meet(SteadyClock::time_point deadline, double seconds);
  void finish(SteadyClock::time_point deadline);

  const MpiLibrary& library_;
  const int rank_, size_, channels_;
  const std::string host_;
  Failure failure_;
  HeartbeatRecord heartbeats_;
  std::mutex status_mutex_;  // held during a call
  std::function<std::string()> status_;
  std::mutex inbox_mutex_;
  std::vector<std::deque<std::string>> inbox_;  // by rank

  std::mutex mpi_mutex_;  // of these, and of all calls of MPI
  MpiTraffic traffic_;
  MpiControl control_;
  bool has_ended_ = false;

  std::atomic<bool> sends_heartbeats_ = true;
  std::atomic<int> waiting_ = 0;                                                   // who ask for themselves
  std::atomic<SteadyClock::time_point> moved_ = SteadyClock::now();                // when a send began or anything ended
  std::atomic<SteadyClock::time_point> told_by_ = SteadyClock::time_point::min();  // how long the others are told of a failure
  std::mutex sleep_mutex_;
  std::condition_variable_any progressed_;
  std::jthread hook_caller_;
  std::jthread progress_;  // the last: it uses all of these
};

}  // namespace sluice::parallel
