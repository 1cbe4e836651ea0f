#include "tests/group/fake_mpi.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

namespace sluice::parallel {

namespace {

struct FakeRequest {
  int state = kUnderWay;
  size_t count = 0;
  int barrier = 0;  ///< the number of a barrier, from 1 on
};

struct Message {
  int tag;
  const void* bytes;
  size_t count;
  FakeRequest* request;
};

struct Room {
  int tag;
  void* bytes;
  size_t count;
  FakeRequest* request;
};

struct Line {
  std::deque<Message> messages;
  std::deque<Room> rooms;

  /// Hands over the first pair of equal tags; whether there is one.
  bool match() {
    for (auto room = rooms.begin(); room != rooms.end(); ++room)
      for (auto message = messages.begin(); message != messages.end(); ++message) {
        if (message->tag != room->tag) continue;
        const bool fits = message->count <= room->count;
        if (fits && message->count > 0) std::memcpy(room->bytes, message->bytes, message->count);
        *room->request = {fits ? kDone : kDoneTooLong, message->count, 0};
        message->request->state = kDone;
        rooms.erase(room);
        messages.erase(message);
        return true;
      }
    return false;
  }
};

struct World {
  std::mutex mutex;
  int ranks = 0;
  bool has_failed = false;
  std::map<std::tuple<int, int, int>, Line> lines;  // of communicator, from, to
  std::deque<FakeRequest> requests;                 // which do not move
  int barriers[FakeMpi::kMostRanks] = {};           // that the rank has begun

  bool is_over(int barrier) const {
    for (int rank = 0; rank < ranks; ++rank)
      if (barriers[rank] < barrier) return false;
    return true;
  }
};

World* world = nullptr;
std::atomic<std::chrono::milliseconds> finish_time = std::chrono::milliseconds(0);

/// Runs `call` in the world.
template <class Call>
int in_world(const Call& call) {
  std::lock_guard lock(world->mutex);
  if (world->has_failed) return FakeMpi::kBroken;
  call(*world);
  return 0;
}

template <int kRank>
int start(int* rank, int* size, int* tag_limit) {
  *rank = kRank;
  *size = world->ranks;
  *tag_limit = 32767;  // all that MPI promises
  return 0;
}

template <int kRank>
int send(int communicator, int to, int tag, const void* bytes, size_t count, int, void** request) {
  return in_world([&](World& in) {
    Line& line = in.lines[{communicator, kRank, to}];
    *request = &in.requests.emplace_back();
    line.messages.push_back({tag, bytes, count, &in.requests.back()});
    while (line.match()) continue;
  });
}

template <int kRank>
int receive(int communicator, int from, int tag, void* room, size_t count, void** request) {
  return in_world([&](World& in) {
    Line& line = in.lines[{communicator, from, kRank}];
    *request = &in.requests.emplace_back();
    line.rooms.push_back({tag, room, count, &in.requests.back()});
    while (line.match()) continue;
  });
}

template <int kRank>
int barrier(void** request) {
  return in_world([&](World& in) {
    *request = &in.requests.emplace_back();
    in.requests.back().barrier = ++in.barriers[kRank];
  });
}

int test(void* request, int* state, size_t* count) {
  return in_world([&](World& in) {
    const auto* const asked = static_cast<FakeRequest*>(request);
    *state = asked->barrier > 0 && in.is_over(asked->barrier) ? kDone : asked->state;
    *count = asked->count;
  });
}

template <int kRank>
int probe(int communicator, int* is_there, int* from, int* tag, size_t* count) {
  return in_world([&](World& in) {
    *is_there = 0;
    for (int rank = 0; rank < in.ranks && !*is_there; ++rank) {
      const Line& line = in.lines[{communicator, rank, kRank}];
      if (line.messages.empty()) continue;
      *is_there = 1;
      *from = rank;
      *tag = line.messages.front().tag;
      *count = line.messages.front().count;
    }
  });
}

void version(char* text, size_t room) { std::snprintf(text, room, "an MPI for tests"); }
void explain(int error, char* text, size_t room) { std::snprintf(text, room, "error %d", error); }
int finish() {
  std::this_thread::sleep_for(finish_time.load());
  return 0;
}

template <int kRank>
constexpr MpiLibrary kLibrary{start<kRank>, send<kRank>, receive<kRank>, barrier<kRank>, test, probe<kRank>, version, explain, finish};

}  // namespace

FakeMpi::FakeMpi(int ranks) {
  world = new World;
  world->ranks = ranks;
}

FakeMpi::~FakeMpi() {
  delete world;
  world = nullptr;
}

const MpiLibrary& FakeMpi::library(int rank) const {
  static constexpr const MpiLibrary* kLibraries[kMostRanks] = {&kLibrary<0>, &kLibrary<1>, &kLibrary<2>, &kLibrary<3>};
  return *kLibraries[rank];
}

void FakeMpi::fail() {
  std::lock_guard lock(world->mutex);
  world->has_failed = true;
}

void FakeMpi::set_finish_time(std::chrono::milliseconds time) { finish_time = time; }

}  // namespace sluice::parallel
