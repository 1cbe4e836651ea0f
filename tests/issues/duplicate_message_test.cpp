// A second message under the key of one that still waited was dropped in silence.
#include "parallel/run/transport.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

TEST(DuplicateMessage, IsAnErrorThatNamesTheTransfer) {
  const auto transport = make_local_transport(2);
  const auto receiver = make_device("cpu:1");
  const MessageKey key{{Payload::activation, 5, -1, 0, 1}, 3};
  transport->send({0, 1}, key, {zeros({2}), {}, 0});
  expect_error<Error>(
      [&] {
        transport->send({0, 1}, key, {full({2}, 1), {}, 0});
      },
      {"a second one of value 5 from 0 to 1, micro-batch 3", "fault of Sluice"});
  transport->post({0, 1}, key, {receiver, room_for({2}, DType::f32, receiver, *default_device()), {}});
  EXPECT_EQ(transport->receive({0, 1}, key, 0)->tensor.to_vector(), (std::vector<double>{0, 0})) << "the first is still there";
}

}  // namespace
}  // namespace sluice::parallel
