#include "parallel/run/transport.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice::parallel {
namespace {

MessageKey key(int value, int micro_batch) { return {{Payload::activation, value, -1, 0, 1}, micro_batch}; }

TEST(LocalTransport, DeliversByKeyInAnyOrder) {
  const auto transport = make_local_transport(2);
  for (int m = 0; m < 3; ++m) transport->send(1, key(5, m), {full({1}, m), 0});
  for (int m : {2, 0, 1}) EXPECT_EQ(transport->receive(1, key(5, m), 0)->tensor.item(), m);
  EXPECT_FALSE(transport->receive(1, key(5, 0), 0).has_value());
}

TEST(LocalTransport, WaitsForAMessageThatComesLater) {
  const auto transport = make_local_transport(2);
  double got = 0;
  std::thread receiver([&] { got = transport->receive(1, key(0, 0), 60)->tensor.item(); });
  transport->send(1, key(0, 0), {full({1}, 7), 0});
  receiver.join();
  EXPECT_EQ(got, 7);
}

TEST(LocalTransport, GivesUpAfterItsTime) {
  const auto transport = make_local_transport(2);
  EXPECT_FALSE(transport->receive(1, key(0, 0), 0.01).has_value());
}

TEST(LocalTransport, WakesEveryWaiterWithTheReasonWhenItCloses) {
  const auto transport = make_local_transport(2);
  std::string reason;
  std::thread receiver([&] {
    try {
      transport->receive(0, key(0, 0), 60);
    } catch (const CommError& error) {
      reason = error.what();
    }
  });
  transport->close("cpu:1 ran out of memory");
  receiver.join();
  EXPECT_EQ(reason, "cpu:1 ran out of memory");
}

}  // namespace
}  // namespace sluice::parallel
