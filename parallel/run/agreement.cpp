#include "parallel/run/agreement.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>

#include "core/device.h"
#include "parallel/group/collectives.h"
#include "parallel/group/deadline.h"
#include "parallel/group/packet.h"
#include "parallel/run/divergence.h"
#include "parallel/run/run_errors.h"

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
    {is_one_of<StoppedError>, raise<StoppedError>},
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
  } catch (...) {  // of the user's code; the others would wait for ever
    packet = PacketWriter();
    packet << kind_of(Error("")) << std::string("what was thrown is no std::exception");
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

/// By rank, on every rank: what its work gave. Throws what the lowest of them threw.
std::vector<std::string> results_of_all(Group& group, const std::function<std::string()>& work, double seconds) {
  const std::string mine = outcome(work);
  const auto deadline = deadline_in(seconds);
  PacketWriter verdict;
  verdict << gather(group, mine, seconds);
  const std::string all = broadcast(group, verdict.take(), seconds_until(deadline));
  auto results = PacketReader(all).read<std::vector<std::string>>();
  for (size_t rank = 0; rank < results.size(); ++rank) results[rank] = result_of(results[rank], join("rank ", rank, ": "));
  return results;
}

}  // namespace

void together(Group* group, const std::function<void()>& work) {
  if (!group || group->size() == 1) return work();
  const auto nothing_of = [&] {
    work();
    return std::string();
  };
  results_of_all(*group, nothing_of, kNoEnd);
}

void together_alike(Group* group, const std::function<std::string()>& work, double seconds) {
  if (!group || group->size() == 1) return static_cast<void>(work());
  std::string mine;
  const auto keeping_mine = [&] { return mine = work(); };
  try {
    const auto results = results_of_all(*group, keeping_mine, seconds);
    for (size_t rank = 1; rank < results.size(); ++rank)
      if (results[rank] != results[0])
        raise<UsageError>(join("ranks: need to run the same in one order, rank 0 came to ", results[0], ", rank ", rank, " to ",
                               results[rank], "; make the same calls with the same mini-batches on all ranks"));
  } catch (const CommError& error) {
    if (dynamic_cast<const ThrownByAll*>(&error) != nullptr) throw;
    group->abort(error.what());
    if (mine.empty()) throw;
    throw CommError(join(error.what(), "\n  this rank had come to ", mine));
  }
}

std::string on_root(Group* group, const std::function<std::string()>& work) {
  if (!group || group->size() == 1) return work();
  return result_of(broadcast(*group, group->is_root() ? outcome(work) : ""), "");
}

namespace {

std::string text_in(const Terms& terms, const std::string& name) {
  const auto found = std::ranges::find(terms, name, &Terms::value_type::first);
  return found == terms.end() ? "" : found->second;
}

}  // namespace

void compare_with_root(Group& group, const std::function<Terms()>& work,
                       const std::function<void(const std::string& name, const std::string& own, const std::string& of_root)>& tell) {
  Terms own;
  together(&group, [&] { own = work(); });
  const std::string packed = on_root(&group, [&] {
    PacketWriter packet;
    packet << own.size();
    for (const auto& [name, text] : own) packet << name << text;
    return packet.take();
  });
  together(&group, [&] {
    PacketReader packet(packed);
    Terms of_root(packet.read<size_t>());
    for (auto& [name, text] : of_root) packet >> name >> text;
    const auto compare = [&](const std::string& name) {
      const std::string here = text_in(own, name), there = text_in(of_root, name);
      if (here != there) tell(name, here, there);
    };
    for (const auto& [name, text] : of_root) compare(name);
    for (const auto& [name, text] : own)
      if (std::ranges::find(of_root, name, &Terms::value_type::first) == of_root.end()) compare(name);
  });
}

}  // namespace sluice::parallel
