// A rank of mpi_test.py: joins its job and runs what it is told to.
// usage: mpi_group_check suite | fatal CHECK FOLDER | kill | stop | speed | size
// FOLDER gets a file of each rank that has passed the check.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "parallel/group/deadline.h"
#include "parallel/group/job.h"
#include "tests/group/group_checks.h"

namespace sluice::parallel {

namespace {

constexpr size_t kSmallPieces = 100'000;
constexpr double kForEver = 1e9;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void run_suite(Group& group) {
  std::vector<GroupCheck> checks = harmless_checks();
  checks.push_back(pieces_check(kSmallPieces));
  checks.push_back(ring_check(64 << 20));
  int runs = 0;
  for (const GroupCheck& check : checks) {
    if (group.size() < check.least_ranks) continue;
    try {
      check.run(group);
    } catch (const std::exception& error) {
      throw Error(check.name + ": " + error.what());
    }
    ++runs;
  }
  group.close(kPatience);
  std::printf("rank %d of %d: %d checks\n", group.rank(), group.size(), runs);
}

/// Ends when all ranks have passed: the first that ends without MPI's consent ends all.
void run_fatal(Group& group, const std::string& name, const std::filesystem::path& folder) {
  for (const GroupCheck& check : fatal_checks())
    if (check.name == name) check.run(group);
  std::ofstream(folder / std::to_string(group.rank())).flush();
  for (int rank = 0; rank < group.size(); ++rank)
    while (!std::filesystem::exists(folder / std::to_string(rank))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// The last rank sends itself a signal; the others wait for it until they learn of that.
void lose_a_rank(Group& group, int signal) {
  group.set_watchdog(3);
  if (group.rank() == group.size() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    kill(getpid(), signal);
    std::this_thread::sleep_for(duration_of(kForEver));
  }
  std::byte room{};
  const RequestPtr request = group.receive(group.size() - 1, 0, {&room, 1});
  group.wait(*request, kForEver);
}

/// Seconds a round between ranks 0 and 1, of which the first is not counted.
double round_trip(Group& group, size_t bytes, int rounds) {
  std::vector<std::byte> out(bytes), in(bytes);
  double start = 0;
  for (int i = -1; i < rounds; ++i) {
    if (i == 0) start = now();
    const RequestPtr received = group.receive(1 - group.rank(), 0, in);
    if (group.rank() == 1) group.wait(*received, kPatience);
    const RequestPtr sent = group.send(1 - group.rank(), 0, out);
    group.wait(*sent, kPatience);
    group.wait(*received, kPatience);
  }
  return (now() - start) / rounds;
}

void measure(Group& group) {
  const double small = round_trip(group, 8, 2000), large = round_trip(group, 64 << 20, 10);
  if (group.is_root()) std::printf("8-byte round trip %.1f us; 64 MiB %.2f GB/s one way\n", small * 1e6, 2 * (64 << 20) / large / 1e9);
  group.close(kPatience);
}

int run(const std::string& what, const std::string& check, const std::string& folder) {
  const auto group = join_job(what == "suite" ? kSmallPieces : 0);
  try {
    if (what == "suite") run_suite(*group);
    if (what == "fatal") run_fatal(*group, check, folder);
    if (what == "kill") lose_a_rank(*group, SIGKILL);
    if (what == "stop") lose_a_rank(*group, SIGSTOP);
    if (what == "speed") measure(*group);
    if (what == "size") std::printf("rank %d of %d\n", group->rank(), group->size()), group->close(kPatience);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", group->rank(), error.what());
    group->abort(error.what());
    std::fflush(nullptr);
    _exit(5);
  }
  std::fflush(nullptr);
  _exit(what == "fatal" ? 6 : 0);  // after a failure MPI has not ended, which launchers take for one
}

}  // namespace

}  // namespace sluice::parallel

int main(int count, char** words) {
  try {
    return sluice::parallel::run(count > 1 ? words[1] : "size", count > 2 ? words[2] : "", count > 3 ? words[3] : "");
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
