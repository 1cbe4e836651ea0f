#include "tests/group/group_checks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "parallel/group/deadline.h"

namespace sluice::parallel {

namespace {

using Bytes = std::vector<std::byte>;

/// Bytes that tell one message from another.
Bytes pattern(size_t size, int seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + static_cast<size_t>(seed) * 97) & 255);
  return bytes;
}

/// A message under way and its memory.
struct Parcel {
  Bytes bytes;
  RequestPtr request;
};

Parcel send(Group& group, int to, int channel, Bytes bytes) {
  Parcel parcel{std::move(bytes), nullptr};
  parcel.request = group.send(to, channel, parcel.bytes);
  return parcel;
}

Parcel receive(Group& group, int from, int channel, size_t room) {
  Parcel parcel{Bytes(room), nullptr};
  parcel.request = group.receive(from, channel, parcel.bytes);
  return parcel;
}

void finish(Group& group, const Parcel& parcel) {
  expect(group.wait(*parcel.request, kPatience), "rank ", group.rank(), ": a message did not end");
}

void finish_with(Group& group, const Parcel& parcel, const Bytes& wanted) {
  finish(group, parcel);
  expect(parcel.request->bytes == wanted.size(), "rank ", group.rank(), ": needed ", wanted.size(), " bytes, got ", parcel.request->bytes);
  expect(std::equal(wanted.begin(), wanted.end(), parcel.bytes.begin()), "rank ", group.rank(), ": other bytes came than were sent");
}

void finish(Group& group, const std::vector<Parcel>& parcels) {
  for (const Parcel& parcel : parcels) finish(group, parcel);
}

std::vector<int> others(const Group& group) {
  std::vector<int> ranks;
  for (int rank = 0; rank < group.size(); ++rank)
    if (rank != group.rank()) ranks.push_back(rank);
  return ranks;
}

template <class E, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  throw Error("an error was needed, none came");
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// No rank goes on before all are here. Control messages are left to the checks.
void meet(Group& group) {
  constexpr int kChannel = 9;
  std::vector<Parcel> parcels;
  for (int other : others(group)) parcels.push_back(receive(group, other, kChannel, 1));
  for (int other : others(group)) parcels.push_back(send(group, other, kChannel, Bytes(1)));
  finish(group, parcels);
}

int seed_of(int from, int to, int number) { return from * 1000 + to * 100 + number; }

void messages_keep_their_order(Group& group) {
  constexpr int kMessages = 300;  // more than there are tags of a channel
  std::vector<Parcel> sent, got;
  for (int i = 0; i < kMessages; ++i)
    for (int other : others(group)) {
      sent.push_back(send(group, other, 0, pattern(i * 37 % 5000, seed_of(group.rank(), other, i))));
      got.push_back(receive(group, other, 0, 5000));
    }
  auto next = got.begin();
  for (int i = 0; i < kMessages; ++i)
    for (int other : others(group)) finish_with(group, *next++, pattern(i * 37 % 5000, seed_of(other, group.rank(), i)));
  finish(group, sent);
}

void channels_are_apart(Group& group) {
  const int last = group.channel_count() - 1;
  std::vector<int> channels{last};
  for (int channel = 0; channel < std::min(last, 64); ++channel) channels.push_back(channel);
  std::vector<Parcel> sent;
  for (int channel : channels)
    for (int other : others(group)) sent.push_back(send(group, other, channel, pattern(1000, seed_of(group.rank(), other, channel))));
  std::reverse(channels.begin(), channels.end());
  for (int channel : channels)
    for (int other : others(group))
      finish_with(group, receive(group, other, channel, 1000), pattern(1000, seed_of(other, group.rank(), channel)));
  finish(group, sent);
}

void crossed_channels_do_not_wait_for_each_other(Group& group) {
  constexpr size_t kLong = 1 << 20;  // which no library sends before it is received
  std::vector<Parcel> sent;
  for (int other : others(group))
    for (int i = 0; i < 6; ++i) sent.push_back(send(group, other, i % 2, pattern(kLong, seed_of(group.rank(), other, i))));
  for (int channel : {1, 0})
    for (int other : others(group))
      for (int i = channel; i < 6; i += 2)
        finish_with(group, receive(group, other, channel, kLong), pattern(kLong, seed_of(other, group.rank(), i)));
  finish(group, sent);
}

void a_message_may_be_shorter_than_its_room(Group& group) {
  std::vector<Parcel> sent;
  for (size_t size : {0, 5, 16})
    for (int other : others(group)) sent.push_back(send(group, other, 2, pattern(size, 1)));
  for (size_t size : {0, 5, 16})
    for (int other : others(group)) finish_with(group, receive(group, other, 2, 16), pattern(size, 1));
  finish(group, sent);
}

void control_messages_keep_their_order(Group& group) {
  const std::vector<size_t> sizes{0, 10, 3'000'000, 1, 70'000};
  for (size_t size : sizes)
    for (int other : others(group)) group.tell(other, std::string(size, static_cast<char>('a' + group.rank())));
  for (size_t size : sizes)
    for (int other : others(group))
      expect(group.hear(other, kPatience) == std::string(size, static_cast<char>('a' + other)),
             "another control message came than was told");
}

void waits_end_at_their_deadlines(Group& group) {
  std::vector<Parcel> got, sent;
  for (int other : others(group)) got.push_back(receive(group, other, 3, 8));
  for (const Parcel& parcel : got) {
    expect(!group.wait(*parcel.request, 0), "a message came that nobody sent");
    expect(!group.wait(*parcel.request, 0.02), "a message came that nobody sent");
  }
  for (int other : others(group)) {
    const std::string error = error_of<CommError>([&] { group.hear(other, 0.02); });
    expect(error.find("rank " + std::to_string(other)) != std::string::npos, "the error does not name the rank: ", error);
  }
  expect(group.failure().empty(), "a deadline is no failure, got ", group.failure());
  meet(group);
  for (int other : others(group)) sent.push_back(send(group, other, 3, pattern(8, group.rank())));
  auto next = got.begin();
  for (int other : others(group)) finish_with(group, *next++, pattern(8, other));
  finish(group, sent);
}

void heartbeats_carry_the_status(Group& group) {
  group.set_status([rank = group.rank()] { return join("status of ", rank); });
  for (int other : others(group)) {
    if (!group.is_root() && other != 0) continue;
    const auto is_heard = [&] {
      const auto heartbeat = group.heartbeats().at(other);
      return heartbeat && heartbeat->status == join("status of ", other) && heartbeat->age_seconds < kPatience;
    };
    for (const auto deadline = deadline_in(kPatience); !is_heard(); pause(0.01))
      expect(seconds_until(deadline) > 0, "rank ", group.rank(), " heard no heartbeat of rank ", other);
  }
  expect(!group.heartbeats().at(group.rank()), "a rank hears its own heartbeat");
  meet(group);
  group.set_status({});
}

void wrong_calls_are_errors(Group& group) {
  std::byte room{};
  const std::span<std::byte> one(&room, 1);
  for (int wrong : {-1, group.rank(), group.size()}) {
    error_of<UsageError>([&] { group.send(wrong, 0, one); });
    error_of<UsageError>([&] { group.receive(wrong, 0, one); });
    error_of<UsageError>([&] { group.tell(wrong, ""); });
    error_of<UsageError>([&] { group.hear(wrong, 0); });
  }
  if (group.size() == 1) return;
  const int other = group.rank() == 0 ? 1 : 0;
  for (int wrong : {-1, group.channel_count()}) {
    error_of<UsageError>([&] { group.send(other, wrong, one); });
    error_of<UsageError>([&] { group.receive(other, wrong, one); });
  }
}

void too_long_a_message_is_an_error(Group& group) {
  constexpr int kRoom = 100;
  if (group.rank() == 0) {
    const Parcel parcel = send(group, 1, 0, pattern(kRoom + 1, 1));
    group.hear(1, kPatience);
  }
  if (group.rank() == 1) {
    const Parcel parcel = receive(group, 0, 0, kRoom);
    const std::string error = error_of<CommError>([&] { group.wait(*parcel.request, kPatience); });
    expect(error.find("100 bytes") != std::string::npos && error.find("rank 0") != std::string::npos, "not a good error: ", error);
    group.tell(0, "seen");
  }
}

void another_label_is_never_handed_over(Group& group) {
  const Bytes bytes = pattern(8, 1);
  Bytes room(8);
  if (group.rank() == 0) {
    const RequestPtr request = group.send(1, 0, bytes, 1);
    group.hear(1, kPatience);
  }
  if (group.rank() == 1) {
    const RequestPtr request = group.receive(0, 0, room, 2);
    expect(!group.wait(*request, 0.2), "a message of another label came");
    group.tell(0, "seen");
  }
}

void abort_ends_all_waits(Group& group) {
  std::atomic<int> calls = 0;
  group.on_failure([&](const std::string&) { ++calls; });
  meet(group);
  const int failing = group.size() - 1;
  const bool fails = group.rank() == failing;
  std::vector<Parcel> kept;
  if (fails) {
    pause(0.05);
    group.abort("the disk is full");
    group.abort("a second reason, which does not count");
  } else {
    kept.push_back(receive(group, failing, 0, 8));
    const std::string error = group.rank() % 2 == 0 ? error_of<CommError>([&] { group.wait(*kept[0].request, kPatience); })
                                                    : error_of<CommError>([&] { group.hear(failing, kPatience); });
    expect(error == group.failure(), "the error is not the failure: ", error);
  }
  kept.push_back(receive(group, fails ? 0 : failing, 1, 8));
  error_of<CommError>([&] { group.wait(*kept.back().request, kPatience); });
  error_of<CommError>([&] { group.close(kPatience); });
  const std::string failure = group.failure();
  expect(failure.find(join("rank ", failing)) == 0 && failure.find("the disk is full") != std::string::npos,
         "not a good reason: ", failure);
  for (const auto deadline = deadline_in(kPatience); !fails && calls == 0; pause(0.01))
    expect(seconds_until(deadline) > 0, "nobody called the hook of rank ", group.rank());
  pause(0.02);
  group.on_failure({});
  expect(calls == (fails ? 0 : 1), "needed one call of the hook where another rank failed, got ", calls.load());
}

}  // namespace

std::vector<GroupCheck> harmless_checks() {
  return {
      {"MessagesKeepTheirOrder", messages_keep_their_order},
      {"ChannelsAreApart", channels_are_apart},
      {"CrossedChannelsDoNotWaitForEachOther", crossed_channels_do_not_wait_for_each_other},
      {"AMessageMayBeShorterThanItsRoom", a_message_may_be_shorter_than_its_room},
      {"ControlMessagesKeepTheirOrder", control_messages_keep_their_order},
      {"WaitsEndAtTheirDeadlines", waits_end_at_their_deadlines},
      {"HeartbeatsCarryTheStatus", heartbeats_carry_the_status},
      {"WrongCallsAreErrors", wrong_calls_are_errors, 1},
  };
}

std::vector<GroupCheck> fatal_checks() {
  return {{"TooLongAMessageIsAnError", too_long_a_message_is_an_error},
          {"AnotherLabelIsNeverHandedOver", another_label_is_never_handed_over},
          {"AbortEndsAllWaits", abort_ends_all_waits}};
}

GroupCheck pieces_check(size_t piece) {
  return {"MessagesOfAboutWholePieces", [piece](Group& group) {
            const std::vector<size_t> sizes{piece, 0, 2 * piece + 1, piece - 1, 3 * piece, piece + 1, 1};
            std::vector<Parcel> sent, got;
            for (size_t size : sizes)
              for (int other : others(group)) {
                sent.push_back(send(group, other, 4, pattern(size, group.rank())));
                got.push_back(receive(group, other, 4, size == 0 ? 3 * piece : size + size % 2));
              }
            auto next = got.begin();
            for (size_t size : sizes)
              for (int other : others(group)) finish_with(group, *next++, pattern(size, other));
            finish(group, sent);
          }};
}

GroupCheck ring_check(size_t bytes) {
  return {join("RingOf", bytes, "Bytes"), [bytes](Group& group) {
            const int ranks = group.size(), before = (group.rank() + ranks - 1) % ranks;
            const Parcel sent = send(group, (group.rank() + 1) % ranks, 0, pattern(bytes, group.rank()));
            finish_with(group, receive(group, before, 0, bytes), pattern(bytes, before));
            finish(group, sent);
          }};
}

}  // namespace sluice::parallel
