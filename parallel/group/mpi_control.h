#pragma once
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "parallel/group/mpi_library.h"

namespace sluice::parallel {

/// The kinds of control messages; their tags.
enum class ControlKind { message, heartbeat, abort };

/// Control messages of any size over MPI, in their order from each rank. A message is sent when the other rank has begun to receive it, so
/// that none is on its way when MPI ends.
/// Threads  one call at a time.
class MpiControl {
 public:
  /// `deliver` is called by poll().
  using Deliver = std::function<void(ControlKind kind, int from, std::string message)>;
  MpiControl(const MpiLibrary& library, int size, Deliver deliver) : library_(library), incoming_(size), deliver_(std::move(deliver)) {}

  void tell(ControlKind kind, int to, std::string message);
  /// Errors  CommError when MPI fails.
  void poll();
  /// Whether no message is on its way out; of all, or of one kind to one rank.
  bool is_idle() const { return outgoing_.empty(); }
  bool is_idle(ControlKind kind, int to) const;

 private:
  struct Outgoing {
    ControlKind kind;
    int to;
    std::string message;
    void* request = nullptr;
  };
  struct Incoming {
    ControlKind kind;
    std::string message;
    void* request = nullptr;
  };

  bool is_done(void* request, const char* call) const;
  void begin_receives();
  void deliver_from(int rank);

  const MpiLibrary& library_;
  std::list<Outgoing> outgoing_;                // which do not move
  std::vector<std::deque<Incoming>> incoming_;  // by rank
  const Deliver deliver_;
};

}  // namespace sluice::parallel
