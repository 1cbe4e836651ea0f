#include "parallel/group/mpi_traffic.h"

#include <algorithm>
#include <utility>

#include "parallel/group/mpi_try.h"

namespace sluice::parallel {

namespace {

constexpr int kSequences = 256;

int tag_of(int channel, uint8_t sequence, uint8_t label) { return channel * kSequences + (sequence + label) % kSequences; }

int communicator_of(int from, int to) { return from < to ? kToHigherRanks : kToLowerRanks; }

}  // namespace

int MpiTraffic::channels_within(int tag_limit) {
  return static_cast<int>(std::min<int64_t>((int64_t{tag_limit} + 1) / kSequences, kMaxChannels));
}

RequestPtr MpiTraffic::send(int to, int channel, std::span<const std::byte> bytes, uint8_t label) {
  sends_.push_back({std::make_shared<Request>(), bytes.size(), {}});
  Send& send = sends_.back();
  const int tag = tag_of(channel, sent_[{to, channel}]++, label);
  size_t sent = 0, piece = 0;
  do {
    piece = std::min(piece_bytes_, bytes.size() - sent);
    void*& handle = send.pieces.emplace_back(nullptr);
    mpi_try(library_, library_.send(communicator_of(rank_, to), to, tag, bytes.data() + sent, piece, false, &handle), "MPI_Isend");
    sent += piece;
  } while (piece == piece_bytes_);
  return send.request;
}

RequestPtr MpiTraffic::receive(int from, int channel, std::span<std::byte> room, uint8_t label) {
  Line& line = lines_[{from, channel}];
  Receive receive{std::make_shared<Request>(), room, from, channel, tag_of(channel, line.sequence++, label)};
  line.held_back.push_back(receive);
  post_held_back(line);
  return receive.request;
}

void MpiTraffic::post_held_back(Line& line) {
  while (!line.held_back.empty() && !line.has_long) {
    receives_.push_back(std::move(line.held_back.front()));
    line.held_back.pop_front();
    line.has_long = is_long(receives_.back());
    post_piece(receives_.back());
  }
}

void MpiTraffic::post_piece(Receive& receive) {
  const auto room = receive.room.subspan(receive.arrived);
  const size_t piece = std::min(piece_bytes_, room.size());
  const int communicator = communicator_of(receive.from, rank_);
  mpi_try(library_, library_.receive(communicator, receive.from, receive.tag, room.data(), piece, &receive.piece), "MPI_Irecv");
}

void MpiTraffic::poll() {
  std::erase_if(sends_, [&](Send& send) { return has_ended(send); });
  std::vector<Line*> freed;
  std::erase_if(receives_, [&](Receive& receive) {
    if (!has_ended(receive)) return false;
    if (is_long(receive)) freed.push_back(&lines_[{receive.from, receive.channel}]);
    return true;
  });
  for (Line* line : freed) {
    line->has_long = false;
    post_held_back(*line);
  }
}

bool MpiTraffic::has_ended(Send& send) {
  std::erase_if(send.pieces, [&](void* piece) {
    int state = kUnderWay;
    size_t ignored = 0;
    mpi_try(library_, library_.test(piece, &state, &ignored), "MPI_Isend");
    return state != kUnderWay;
  });
  if (!send.pieces.empty()) return false;
  send.request->bytes = send.bytes;
  send.request->is_done = true;
  return true;
}

bool MpiTraffic::has_ended(Receive& receive) {
  int state = kUnderWay;
  size_t count = 0;
  mpi_try(library_, library_.test(receive.piece, &state, &count), "MPI_Irecv");
  if (state == kUnderWay) return false;
  if (state == kDoneTooLong) {
    receive.request->error = join("group: rank ", rank_, " needed a message of at most ", receive.room.size(), " bytes from rank ",
                                  receive.from, " on channel ", receive.channel, ", got more; receive into a larger room");
  } else {
    receive.arrived += count;
    if (count == piece_bytes_) return post_piece(receive), false;
  }
  receive.request->bytes = receive.arrived;
  receive.request->is_done = true;
  return true;
}

}  // namespace sluice::parallel
