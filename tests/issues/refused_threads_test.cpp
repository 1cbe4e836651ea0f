// Threads that the system refused ended the program: those started before were destroyed while they ran.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <fstream>

#include "core/cpu/cpu.h"
#include "data/prefetcher.h"
#include "parallel/run/worker.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// While it lives there is room for the stacks of a few threads of this process, and then for no more.
class FewThreads {
 public:
  explicit FewThreads(int count) {
    constexpr size_t kStack = size_t{1} << 30;
    pthread_getattr_default_np(&usual_);
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, kStack);
    pthread_setattr_default_np(&large);
    pthread_attr_destroy(&large);
    getrlimit(RLIMIT_AS, &limit_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit tight{pages * static_cast<size_t>(getpagesize()) + kStack * static_cast<size_t>(count) + kStack / 2, limit_.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
  }
  ~FewThreads() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
  rlimit limit_{};
};

TEST(RefusedThreads, AreAnErrorOfTheLoader) {
  for (const int enough_for : {0, 2}) {
    const FewThreads few(enough_for);
    expect_error<ResourceError>([] { data::Prefetcher([](int64_t) { return Batch{}; }, 8, 2); },
                                {"cannot start a thread of the data loader", "ulimit -u"});
  }
}

TEST(RefusedThreads, AreAnErrorOfADevicesTeamWhichWorksWhenThereAreThreadsAgain) {
  Cpu cpu(8);
  std::vector<int> done(100, 0);
  const auto work = [&] {
    cpu.parallel_for(100, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) done[static_cast<size_t>(i)] = 1;
    });
  };
  {
    const FewThreads few(2);
    expect_error<ResourceError>(work, {"cannot start a thread of a CPU device"});
  }
  work();
  EXPECT_EQ(std::count(done.begin(), done.end(), 1), 100);
}

TEST(RefusedThreads, AreAnErrorOfADevicesWorker) {
  const FewThreads few(0);
  expect_error<ResourceError>([] { parallel::Worker(); }, {"cannot start a thread of a device's worker"});
}

}  // namespace
}  // namespace sluice
