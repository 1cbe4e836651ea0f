#include "parallel/run/transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

constexpr ChannelEnds kEnds{0, 1};

MessageKey key(int value, int micro_batch) { return {{Payload::activation, value, -1, 0, 1}, micro_batch}; }

class LocalTransport : public ::testing::Test {
 protected:
  Message message(double value) const { return {full({8}, value, DType::f32, sender_), {}, 0}; }
  Place place() const { return {receiver_, room_for({8}, DType::f32, receiver_, *sender_), {}}; }
  void send(int micro_batch, double value) const { transport_->send(kEnds, key(5, micro_batch), message(value)); }
  void post(int micro_batch) const { transport_->post(kEnds, key(5, micro_batch), place()); }
  std::optional<Message> receive(int micro_batch, double seconds = 0) const {
    return transport_->receive(kEnds, key(5, micro_batch), seconds);
  }
  bool finish(int micro_batch, double seconds = 0) const {
    return transport_->finish_send(kEnds, key(5, micro_batch), seconds).has_value();
  }
  static double value_of(const std::optional<Message>& message) { return message->tensor.to_vector()[0]; }

  const DevicePtr sender_ = make_device("cpu:0"), receiver_ = make_device("cpu:1");
  const std::unique_ptr<Transport> transport_ = make_local_transport(2);
};

TEST_F(LocalTransport, HandsOverWhatWasSentAndPostedAndIsReceivedInAnyOrder) {
  for (int m = 0; m < 3; ++m) send(m, m);
  for (int m = 0; m < 3; ++m) post(m);
  for (const int m : {2, 0, 1}) EXPECT_EQ(value_of(receive(m)), m);
  for (const int m : {1, 2, 0}) EXPECT_TRUE(finish(m));
  EXPECT_FALSE(receive(0).has_value());
}

TEST_F(LocalTransport, NeitherEndIsDoneBeforeBothHaveCome) {
  send(0, 7);
  EXPECT_FALSE(receive(0).has_value());
  EXPECT_FALSE(finish(0)) << "nothing is buffered";
  post(0);
  EXPECT_EQ(value_of(receive(0)), 7);
  EXPECT_TRUE(finish(0));
}

TEST_F(LocalTransport, ATransferWaitsForThoseThatItsChannelSendsBefore) {
  send(0, 1);
  send(1, 2);
  post(0);
  EXPECT_FALSE(finish(1));
  EXPECT_TRUE(finish(0));
  post(1);
  EXPECT_TRUE(finish(1));
}

TEST_F(LocalTransport, RefusesEndsThatDifferInTheirOrder) {
  send(0, 1);
  send(1, 2);
  expect_error<Error>([&] { post(1); }, {"one order at both ends of a channel", "micro-batch 0 sent where", "micro-batch 1 is received"});
}

TEST_F(LocalTransport, ChargesTheSenderUntilItsSendEndsAndTheReceiverFromItsPostOn) {
  send(0, 1);
  EXPECT_EQ(sender_->live_bytes(), 64);
  EXPECT_EQ(receiver_->live_bytes(), 0);
  post(0);
  EXPECT_EQ(receiver_->live_bytes(), 64);
  auto arrived = receive(0);
  EXPECT_EQ(sender_->live_bytes(), 64) << "received, but the sender has not seen it";
  EXPECT_TRUE(finish(0));
  EXPECT_EQ(sender_->live_bytes(), 0);
  EXPECT_EQ(receiver_->live_bytes(), 64);
  EXPECT_EQ(value_of(arrived), 1);
  arrived.reset();
  EXPECT_EQ(receiver_->live_bytes(), 0);
}

TEST_F(LocalTransport, KeepsTheRoomOfAMessageWithoutATensorUntilItIsReceived) {
  post(0);
  transport_->send(kEnds, key(5, 0), {});
  EXPECT_TRUE(finish(0));
  EXPECT_EQ(receiver_->live_bytes(), 64);
  EXPECT_FALSE(receive(0)->tensor.defined());
  EXPECT_EQ(receiver_->live_bytes(), 0);
}

TEST_F(LocalTransport, MakesRoomWhenAMessageOfUnknownShapeComes) {
  transport_->post(kEnds, key(5, 0), {receiver_, Tensor(), {}});
  send(0, 3);
  EXPECT_EQ(receiver_->live_bytes(), 64);
  EXPECT_EQ(value_of(receive(0)), 3);
}

TEST_F(LocalTransport, WaitsForAMessageThatComesLater) {
  double got = 0;
  std::thread receiver([&] {
    post(0);
    got = value_of(receive(0, 60));
  });
  send(0, 7);
  EXPECT_TRUE(finish(0, 60));
  receiver.join();
  EXPECT_EQ(got, 7);
}

TEST_F(LocalTransport, GivesUpAfterItsTime) {
  EXPECT_FALSE(receive(0, 0.01).has_value());
  EXPECT_FALSE(finish(0, 0.01));
}

TEST_F(LocalTransport, WakesEveryWaiterWithTheReasonWhenItCloses) {
  std::vector<std::string> reasons(2);
  const auto noting = [&](std::string& reason, const auto& wait) {
    try {
      wait();
    } catch (const CommError& error) {
      reason = error.what();
    }
  };
  std::thread receiver([&] { noting(reasons[0], [&] { receive(0, 60); }); });
  std::thread sender([&] { noting(reasons[1], [&] { finish(0, 60); }); });
  transport_->close("cpu:1 ran out of memory");
  receiver.join();
  sender.join();
  EXPECT_EQ(reasons, std::vector<std::string>(2, "cpu:1 ran out of memory"));
}

}  // namespace
}  // namespace sluice::parallel
