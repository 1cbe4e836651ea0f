#include "parallel/group/mpi_group.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "parallel/group/deadline.h"
#include "tests/expect_error.h"
#include "tests/group/fake_mpi.h"
#include "tests/group/group_suite.h"

namespace sluice::parallel {

namespace {

constexpr size_t kPieceBytes = 100'000;

std::unique_ptr<Group> join(const FakeMpi& mpi, int which) {
  int rank = 0, size = 0, tag_limit = 0;
  mpi.library(which).start(&rank, &size, &tag_limit);
  return std::make_unique<MpiGroup>(mpi.library(which), rank, size, tag_limit, kPieceBytes);
}

/// Runs `body` on a thread for each rank. Errors  the first.
void run_mpi_ranks(int ranks, const std::function<void(Group&)>& body) {
  const FakeMpi mpi(ranks);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < ranks; ++rank) groups.push_back(join(mpi, rank));
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](Group& group) {
    try {
      body(group);
    } catch (const std::exception& error) {
      {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      group.abort(error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const auto& group : groups) threads.emplace_back([&run, &group] { run(*group); });
  }
  groups.clear();
  if (first) std::rethrow_exception(first);
}

class MpiGroups : public testing::TestWithParam<GroupCase> {};

TEST_P(MpiGroups, DoWhatGroupsMust) { run_mpi_ranks(GetParam().ranks, GetParam().check.run); }

std::vector<GroupCheck> all_checks() {
  std::vector<GroupCheck> checks = harmless_checks();
  for (GroupCheck& check : checks) {
    check.least_ranks = 2;
    check.run = [run = check.run](Group& group) {
      run(group);
      group.close(kPatience);
    };
  }
  for (const GroupCheck& check : fatal_checks()) checks.push_back(check);
  checks.push_back(pieces_check(kPieceBytes));
  checks.push_back(ring_check(1 << 20));
  return checks;
}

INSTANTIATE_TEST_SUITE_P(Checks, MpiGroups, testing::ValuesIn(group_cases(all_checks())), name_of);

TEST(MpiGroup, HasAsManyChannelsAsThereAreTags) {
  const FakeMpi mpi(2);
  EXPECT_EQ(join(mpi, 0)->channel_count(), 128);
}

TEST(MpiGroup, NamesARankThatIsSilent) {
  const FakeMpi mpi(3);
  const auto root = join(mpi, 0), first = join(mpi, 1);  // and no rank 2
  std::atomic<int> calls = 0;
  root->on_failure([&](const std::string&) { ++calls; });
  root->set_watchdog(1.5);
  first->set_watchdog(0);
  std::byte room{};
  const RequestPtr request = root->receive(2, 0, {&room, 1});
  expect_error<CommError>([&] { root->wait(*request, kPatience); }, {"rank 2", "not been heard of for 1.5 s"});
  // The root tells the others.
  expect_error<CommError>([&] { first->hear(0, kPatience); }, {"rank 2", "not been heard of for 1.5 s"});
  const auto deadline = deadline_in(kPatience);
  while (calls == 0 && seconds_until(deadline) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  root->on_failure({});
  EXPECT_EQ(calls, 1);
}

/// That takes half a second from the failure on.
TEST(MpiGroup, DoesNotTryToTellARankThatIsSilent) {
  const auto seconds_to_abort = [] {
    const FakeMpi mpi(3);
    const auto root = join(mpi, 0), first = join(mpi, 1);  // and no rank 2
    root->set_watchdog(1.5);
    first->set_watchdog(0);
    EXPECT_THROW(root->hear(2, kPatience), CommError);
    const auto start = SteadyClock::now();
    root->abort("all have ended");
    return seconds_since(start);
  };
  double fastest = kPatience;
  for (int i = 0; i < 5 && fastest > 0.25; ++i) fastest = std::min(fastest, seconds_to_abort());
  EXPECT_LT(fastest, 0.25);
}

TEST(MpiGroup, FailsWhenMpiDoes) {
  FakeMpi mpi(2);
  const auto group = join(mpi, 1);
  mpi.fail();
  expect_error<CommError>([&] { group->hear(0, kPatience); }, {"rank 1", "MPI_", "error 99"});
  group->abort("nobody hears that");
  EXPECT_NE(group->failure().find("error 99"), std::string::npos);
}

TEST(MpiGroup, CloseEndsWhenAnotherRankDoesNotClose) {
  const FakeMpi mpi(2);
  const auto group = join(mpi, 0), other = join(mpi, 1);
  expect_error<CommError>([&] { group->close(0.05); }, {"rank 0", "all ranks to close within 0.05 s"});
}

TEST(MpiGroup, CloseNeedsTheEndOfAllMessages) {
  const FakeMpi mpi(2);
  const auto group = join(mpi, 0), other = join(mpi, 1);
  std::byte room{};
  group->receive(1, 0, {&room, 1});
  expect_error<CommError>([&] { group->close(0.05); }, {"end of all its messages"});
}

TEST(MpiGroup, CloseEndsWhenMpiDoesNot) {
  FakeMpi::set_finish_time(std::chrono::minutes(10));
  const auto start = SteadyClock::now();
  run_mpi_ranks(2, [](Group& group) { group.close(1); });
  EXPECT_LT(seconds_since(start), 300);
  FakeMpi::set_finish_time(std::chrono::seconds(0));
}

}  // namespace

}  // namespace sluice::parallel
