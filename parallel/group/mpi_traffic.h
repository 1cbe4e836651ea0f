#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "parallel/group/group.h"
#include "parallel/group/mpi_library.h"

namespace sluice::parallel {

/// The bytes of tensors over MPI. One communicator carries what goes to higher ranks, another what goes to lower ones. A tag is the channel
/// and the sum of the message's number in it and its label, modulo 256: MPI keeps the order of equal tags, and where the two ends differ
/// nothing is received.
///
/// A message goes in pieces, because MPI counts in int. All but the last are full, so that the receiver knows the last: it may be empty.
/// Threads  one call at a time.
class MpiTraffic {
 public:
  MpiTraffic(const MpiLibrary& library, int rank, size_t piece_bytes) : library_(library), rank_(rank), piece_bytes_(piece_bytes) {}

  /// How many channels there is a tag for.
  static int channels_within(int tag_limit);
  RequestPtr send(int to, int channel, std::span<const std::byte> bytes, uint8_t label);
  RequestPtr receive(int from, int channel, std::span<std::byte> room, uint8_t label);
  /// Looks at all that is under way.
  /// Errors  CommError when MPI fails: no call but under_way() may follow.
  void poll();
  size_t under_way() const { return sends_.size() + receives_.size(); }

 private:
  struct Send {
    RequestPtr request;
    size_t bytes;
    std::vector<void*> pieces;
  };
  struct Receive {
    RequestPtr request;
    std::span<std::byte> room;
    int from, channel, tag;
    size_t arrived = 0;
    void* piece = nullptr;
  };
  /// What comes from a rank on a channel. While a message of several pieces is under way no later one is posted, which would take its
  /// pieces where the tags are equal.
  struct Line {
    uint8_t sequence = 0;
    bool has_long = false;
    std::deque<Receive> held_back;
  };

  bool is_long(const Receive& receive) const { return receive.room.size() >= piece_bytes_; }
  void post_piece(Receive& receive);
  void post_held_back(Line& line);
  bool has_ended(Send& send);
  bool has_ended(Receive& receive);

  const MpiLibrary& library_;
  const int rank_;
  const size_t piece_bytes_;
  std::map<std::pair<int, int>, uint8_t> sent_;  // by rank and channel
  std::map<std::pair<int, int>, Line> lines_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
};

}  // namespace sluice::parallel
