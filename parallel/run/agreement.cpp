#include "parallel/run/agreement.h"

#include <exception>
#include <new>
#include <system_error>

#include "core/device.h"
#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"
#include "parallel/run/divergence.h"

namespace sluice::parallel {

namespace {

template <class E>
struct ByAll : E, ThrownByAll {
  using E::E;
};

/// One kind of error: whether an error is of it, and how it is thrown by all.
struct Kind {
  bool (*is_of)(const std::exception&);
  void (*raise)(const std::string& text);
};

template <class... E>
bool is_one_of(const std::exception& error) {
  return ((dynamic_cast<const E*>(&error) != nullptr) || ...);
}

template <class E>
void raise(const std::string& text) {
  throw ByAll<E>(text);
}

/// A kind stands before the one that it is derived from. A system_error is a file or a thread that the system refuses.
constexpr Kind kKinds[] = {
    {is_one_of<OutOfMemory>, raise<OutOfMemory>},
    {is_one_of<ResourceError, std::bad_alloc, std::system_error>, raise<ResourceError>},
    {is_one_of<UsageError>, raise<UsageError>},
    {is_one_of<DataError>, raise<DataError>},
    {is_one_of<DivergenceError>, raise<DivergenceError>},
    {is_one_of<DeviceError>, raise<DeviceError>},
    {is_one_of<CommError>, raise<CommError>},
    {is_one_of<std::exception>, raise<Error>},
};

int kind_of(const std::exception& error) {
  int kind = 0;
  while (!kKinds[kind].is_of(error)) ++kind;
  return kind;
}

constexpr int kNone = -1;

/// What became of a rank's work.
std::string outcome(const std::function<std::string()>& work) {
  PacketWriter packet;
  try {
    const std::string result = work();
    packet << kNone << result;
  } catch (const std::exception& error) {
    packet = PacketWriter();
    packet << kind_of(error) << std::string(error.what());
  }
  return packet.take();
}

std::string result_of(const std::string& outcome, const std::string& place) {
  PacketReader packet(outcome);
  const int kind = packet.read<int>();
  const auto text = packet.read<std::string>();
  if (kind != kNone) kKinds[kind].raise(place + text);
  return text;
}

}  // namespace

void together(Group* group, const std::function<void()>& work) {
  if (!group || group->size() == 1) return work();
  const auto outcomes = gather(*group, outcome([&] {
    work();
    return std::string();
  }));
  PacketWriter verdict;
  for (const std::string& outcome : outcomes) verdict << outcome;
  const std::string all = broadcast(*group, verdict.take());
  PacketReader packet(all);
  for (int rank = 0; rank < group->size(); ++rank) result_of(packet.read<std::string>(), join("rank ", rank, ": "));
}

std::string on_root(Group* group, const std::function<std::string()>& work) {
  if (!group || group->size() == 1) return work();
  return result_of(broadcast(*group, group->is_root() ? outcome(work) : ""), "");
}

}  // namespace sluice::parallel
