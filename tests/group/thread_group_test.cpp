#include "parallel/group/thread_group.h"

#include <atomic>

#include "parallel/group/deadline.h"
#include "tests/expect_error.h"
#include "tests/group/group_suite.h"

namespace sluice::parallel {

namespace {

TEST(Deadline, IsToldAsTheUserSetItWhereAMomentOfItIsOver) {
  for (const double seconds : {0.05, 0.2, 1.5, 60.0, 1800.0}) EXPECT_EQ(told_seconds(seconds - 3e-6), seconds);
}

class ThreadGroups : public testing::TestWithParam<GroupCase> {};

TEST_P(ThreadGroups, DoWhatGroupsMust) { run_ranks(GetParam().ranks, GetParam().check.run); }

std::vector<GroupCheck> all_checks() {
  std::vector<GroupCheck> checks = harmless_checks();
  for (GroupCheck& check : checks)
    check.run = [run = check.run](Group& group) {
      run(group);
      group.close(kPatience);
    };
  for (const GroupCheck& check : fatal_checks()) checks.push_back(check);
  checks.push_back(pieces_check(1000));
  checks.push_back(ring_check(1 << 20));
  return checks;
}

INSTANTIATE_TEST_SUITE_P(Checks, ThreadGroups, testing::ValuesIn(group_cases(all_checks())), name_of);

TEST(ThreadGroup, ReadsWhatIsSentOnlyWhenItsReceiveIsThere) {
  const auto groups = make_thread_groups(2);
  std::byte sent{1}, got{0};
  const RequestPtr send = groups[0]->send(1, 0, {&sent, 1});
  EXPECT_FALSE(groups[0]->wait(*send, 0.01));
  sent = std::byte{2};
  const RequestPtr receive = groups[1]->receive(0, 0, {&got, 1});
  EXPECT_TRUE(groups[0]->wait(*send, 0) && groups[1]->wait(*receive, 0));
  EXPECT_EQ(got, std::byte{2});
}

TEST(ThreadGroup, SendsThatWaitForEachOtherHang) {
  const auto groups = make_thread_groups(2);
  std::byte bytes[2] = {};
  const RequestPtr one = groups[0]->send(1, 0, {&bytes[0], 1}), other = groups[1]->send(0, 0, {&bytes[1], 1});
  EXPECT_FALSE(groups[0]->wait(*one, 0.01) || groups[1]->wait(*other, 0.01));
}

TEST(ThreadGroup, LeavesTheMemoryOfAGroupThatIsGone) {
  auto groups = make_thread_groups(2);
  std::byte got{7};
  {
    std::byte sent{1};
    groups[0]->send(1, 0, {&sent, 1});
    groups[0].reset();
  }
  const RequestPtr receive = groups[1]->receive(0, 0, {&got, 1});
  EXPECT_FALSE(groups[1]->wait(*receive, 0));
  EXPECT_EQ(got, std::byte{7});
}

TEST(ThreadGroup, CloseNamesTheRanksThatDoNot) {
  const auto groups = make_thread_groups(3);
  expect_error<CommError>([&] { groups[0]->close(0.01); }, {"rank 0", "none of rank 1, 2"});
}

TEST(ThreadGroup, CloseNeedsTheEndOfAllMessages) {
  const auto groups = make_thread_groups(2);
  std::byte room{};
  groups[0]->receive(1, 0, {&room, 1});
  expect_error<CommError>([&] { groups[0]->close(0.01); }, {"end of all its messages", "got 1"});
}

TEST(ThreadGroup, CallsAHookThatComesAfterTheFailure) {
  const auto groups = make_thread_groups(2);
  groups[1]->abort("out of disk");
  std::string heard;
  groups[0]->on_failure([&](const std::string& failure) { heard = failure; });
  EXPECT_EQ(heard, "rank 1: out of disk");
  groups[1]->on_failure([](const std::string&) { FAIL() << "its own failure"; });
}

TEST(RunRanks, RethrowsTheErrorOfTheRankThatFailedFirst) {
  expect_error<DataError>(
      [] {
        run_ranks(4, [](Group& group) {
          if (group.rank() == 2) throw DataError("a damaged file");
          std::byte room{};
          group.wait(*group.receive(2, 0, {&room, 1}), kPatience);
        });
      },
      {"a damaged file"});
}

TEST(RunRanks, RunsARankAThread) {
  std::atomic<int> ranks = 0;
  run_ranks(3, [&](Group& group) { ranks += 1 << group.rank(); });
  EXPECT_EQ(ranks, 7);
}

TEST(SingleGroup, IsItsOwnRoot) {
  const auto group = make_single_group();
  EXPECT_TRUE(group->is_root());
  EXPECT_EQ(group->size(), 1);
  std::byte room{};
  expect_error<UsageError>([&] { group->send(0, 0, {&room, 1}); }, {"send", "one process"});
  expect_error<UsageError>([&] { group->hear(0, 1); }, {"hear"});
  group->close(1);
}

TEST(SingleGroup, FailsWhenItIsAborted) {
  const auto group = make_single_group();
  group->abort("enough");
  EXPECT_EQ(group->failure(), "enough");
  EXPECT_THROW(group->close(1), CommError);
}

}  // namespace

}  // namespace sluice::parallel
