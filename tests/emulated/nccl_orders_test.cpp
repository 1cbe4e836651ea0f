// Orders of NCCL's calls that hang on GPUs, each beside the right one. tests/schedule/planted_orders_test.cpp has those that a program can
// have; here it is shown that they are what the emulation, and so the transport's tests, would find.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulated/nccl_job.h"
#include "tests/emulation/nccl.h"

namespace sluice::emulation {
namespace {

constexpr size_t kFifoBytes = 1000, kLarge = 5000, kLarger = 7000, kSmall = 300;

struct PlantedOrder {
  std::string name;
  int ranks;
  std::function<void(NcclRank&)> wrong, right;
};

int other(const NcclRank& rank) { return 1 - rank.rank(); }

/// A connected communicator of two ranks.
ncclComm_t pair(NcclRank& rank, int a = 0, int b = 1) {
  if (rank.rank() != a && rank.rank() != b) return nullptr;
  const ncclComm_t made = rank.join("pair " + std::to_string(a) + std::to_string(b), {a, b});
  if (made) rank.connect(made, rank.rank() == a ? 1 : 0);
  return made;
}

/// Three ranks in a ring: each with a communicator to the next one and one from the one before, made in one order by all.
struct Ring {
  ncclComm_t next = nullptr, previous = nullptr;
};
std::vector<int> link_of(int from) { return {from, (from + 1) % 3}; }
Ring ring(NcclRank& rank, bool is_connected = true) {
  Ring made;
  for (int from = 0; from < 3; ++from) {
    const auto link = link_of(from);
    if (rank.rank() != link[0] && rank.rank() != link[1]) continue;
    ncclComm_t& place = rank.rank() == from ? made.next : made.previous;
    place = rank.join("ring " + std::to_string(from), link);
    if (place && is_connected) rank.connect(place, rank.rank() == from ? 1 : 0);
  }
  return made;
}
constexpr int kNext = 1, kPrevious = 0;  ///< ranks of the neighbours in their communicators

void send_then_receive(NcclRank& rank) {
  const ncclComm_t both = pair(rank);
  rank.send(both, other(rank), kLarge);
  rank.receive(both, other(rank), kLarge);
}

void one_sends_first(NcclRank& rank) {
  const ncclComm_t both = pair(rank);
  for (const bool sends : {rank.rank() == 0, rank.rank() == 1})
    sends ? rank.send(both, other(rank), kLarge) : rank.receive(both, other(rank), kLarge);
}

void receive_then_send(NcclRank& rank) {
  const ncclComm_t both = pair(rank);
  rank.receive(both, other(rank), kSmall);
  rank.send(both, other(rank), kSmall);
}

/// Rank 0 posts the gradient early and sends the activation that it is made from, on another stream; rank 1 answers.
void gradient_posted_first(NcclRank& rank, ncclComm_t activations, ncclComm_t gradients) {
  if (rank.rank() == 0) {
    rank.receive(gradients, 1, kSmall, 1);
    rank.send(activations, 1, kSmall, 0);
  } else {
    rank.receive(activations, 0, kSmall, 0);
    rank.finish(0);
    rank.send(gradients, 0, kSmall, 1);
  }
}

void over_one_communicator(NcclRank& rank) {
  const ncclComm_t both = pair(rank);
  gradient_posted_first(rank, both, both);
}

void over_one_a_direction(NcclRank& rank) {
  const ncclComm_t activations = rank.join("activations", {0, 1});
  rank.connect(activations, other(rank));
  const ncclComm_t gradients = rank.join("gradients", {0, 1});
  rank.connect(gradients, other(rank));
  gradient_posted_first(rank, activations, gradients);
}

void two_messages(NcclRank& rank, const std::vector<size_t>& sent, const std::vector<size_t>& received) {
  const ncclComm_t both = pair(rank);
  for (const size_t bytes : rank.rank() == 0 ? sent : received) rank.rank() == 0 ? rank.send(both, 1, bytes) : rank.receive(both, 0, bytes);
}

void ring_of(NcclRank& rank, bool sends_first) {
  const Ring links = ring(rank);
  const auto send = [&] {
    rank.send(links.next, kNext, kLarge, 0);
    rank.finish(0);
  };
  const auto receive = [&] {
    rank.receive(links.previous, kPrevious, kLarge, 1);
    rank.finish(1);
  };
  if (sends_first) send();
  receive();
  if (!sends_first) send();
}

/// Rank 0 breaks the circle.
void ring_with_an_end(NcclRank& rank) { ring_of(rank, rank.rank() == 0); }

void exchange(NcclRank& rank, bool groups) {
  const ncclComm_t both = pair(rank);
  if (groups) ncclGroupStart();
  rank.receive(both, other(rank), kLarge, 0);
  rank.send(both, other(rank), kLarge, 0);
  if (groups) ncclGroupEnd();
}

void two_in_a_group(NcclRank& rank, bool groups) {
  const ncclComm_t both = pair(rank);
  if (groups) ncclGroupStart();
  for (int i = 0; i < 2; ++i) rank.rank() == 0 ? rank.send(both, 1, kLarge) : rank.receive(both, 0, kLarge);
  if (groups) ncclGroupEnd();
}

/// Each rank's first operations, on streams of their own: on connected communicators no order matters.
void first_uses(NcclRank& rank, bool is_connected) {
  const Ring links = ring(rank, is_connected);
  rank.send(links.next, kNext, kSmall, 0);
  rank.receive(links.previous, kPrevious, kSmall, 1);
}

void created(NcclRank& rank, bool is_sorted) {
  const int mine = rank.rank(), before = (mine + 2) % 3;
  std::vector<int> links = {mine, before};
  if (is_sorted) std::ranges::sort(links);
  for (const int from : links) rank.join("ring " + std::to_string(from), link_of(from));
}

std::vector<PlantedOrder> planted_orders() {
  return {
      {"SendsThatCrossOnOneCommunicator", 2, send_then_receive, one_sends_first},
      {"ReceivesThatCrossOnOneCommunicator", 2, receive_then_send, one_sends_first},
      {"AWaitingReceiveBeforeASendOnOneSharedCommunicator", 2, over_one_communicator, over_one_a_direction},
      {"AChannelsMessagesReceivedInAnotherOrder", 2,
       [](NcclRank& rank) {
         two_messages(rank, {kLarge, kLarger}, {kLarger, kLarge});
       },
       [](NcclRank& rank) {
         two_messages(rank, {kLarge, kLarger}, {kLarge, kLarger});
       }},
      {"AMessageThatNobodyReceives", 2,
       [](NcclRank& rank) {
         two_messages(rank, {kLarge, kLarge}, {kLarge});
       },
       [](NcclRank& rank) { two_messages(rank, {kLarge}, {kLarge}); }},
      {"AReceiveThatNobodySends", 2,
       [](NcclRank& rank) {
         two_messages(rank, {kSmall}, {kSmall, kSmall});
       },
       [](NcclRank& rank) { two_messages(rank, {kSmall}, {kSmall}); }},
      {"AReceiveOfAnotherSize", 2, [](NcclRank& rank) { two_messages(rank, {kSmall}, {kLarge}); },
       [](NcclRank& rank) { two_messages(rank, {kLarge}, {kLarge}); }},
      {"ACircleOfSends", 3, [](NcclRank& rank) { ring_of(rank, true); }, ring_with_an_end},
      {"ACircleOfReceives", 3, [](NcclRank& rank) { ring_of(rank, false); }, ring_with_an_end},
      {"AnExchangeGroupedAtOneEnd", 2, [](NcclRank& rank) { exchange(rank, rank.rank() == 0); },
       [](NcclRank& rank) { exchange(rank, true); }},
      {"SendsGroupedAndReceivesSingle", 2, [](NcclRank& rank) { two_in_a_group(rank, rank.rank() == 0); },
       [](NcclRank& rank) { two_in_a_group(rank, true); }},
      {"FirstUsesInACircle", 3, [](NcclRank& rank) { first_uses(rank, false); }, [](NcclRank& rank) { first_uses(rank, true); }},
      {"CommunicatorsMadeInUnequalOrders", 3, [](NcclRank& rank) { created(rank, false); }, [](NcclRank& rank) { created(rank, true); }},
  };
}

class NcclOrders : public ::testing::TestWithParam<PlantedOrder> {
 protected:
  NcclOrders() { emulated_nccl().fifo_bytes = kFifoBytes; }
  ~NcclOrders() override { emulated_nccl() = {}; }
};

TEST_P(NcclOrders, TheWrongOneHangs) { EXPECT_FALSE(ends(GetParam().ranks, GetParam().wrong)); }
TEST_P(NcclOrders, TheRightOneEnds) { EXPECT_TRUE(ends(GetParam().ranks, GetParam().right)); }

INSTANTIATE_TEST_SUITE_P(Planted, NcclOrders, ::testing::ValuesIn(planted_orders()), [](const auto& info) { return info.param.name; });

/// So an order has to be tried with messages beyond the buffers.
TEST(NcclFifo, HidesAWrongOrderOfSmallMessages) {
  for (const auto& [fifo_bytes, passes] : {std::pair{kLarge, true}, {kLarge - 1, false}}) {
    emulated_nccl().fifo_bytes = fifo_bytes;
    EXPECT_EQ(ends(2, send_then_receive), passes) << fifo_bytes;
  }
  emulated_nccl() = {};
}

}  // namespace
}  // namespace sluice::emulation
