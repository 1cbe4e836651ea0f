#include "core/cpu/cpu.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/start_thread.h"

namespace sluice {

/// Helpers, started at the first job, that sleep between jobs. One job at a time, for which other callers wait: chunks are taken from an
/// atomic counter, so that a slow thread takes fewer.
struct Cpu::Team {
  explicit Team(int helpers) : helpers(helpers) {}
  ~Team() { close(); }

  /// All of them or, where the system refuses one, none: the next job tries again.
  void start() {
    closing = false;
    try {
      while (static_cast<int>(threads.size()) < helpers) threads.push_back(start_thread("a CPU device", [this] { serve(); }));
    } catch (...) {
      close();
      throw;
    }
  }

  void close() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    wake.notify_all();
    threads.clear();
  }

  void run(int64_t count, const std::function<void(int64_t)>& work) {
    std::lock_guard only(one_job);
    if (threads.empty()) start();
    {
      std::lock_guard lock(mutex);
      job = &work;
      chunks = count;
      next = 0;
      working = static_cast<int>(threads.size());
      failure = nullptr;
      ++generation;
    }
    wake.notify_all();
    take_chunks();
    std::unique_lock lock(mutex);
    done.wait(lock, [this] { return working == 0; });
    if (failure) std::rethrow_exception(failure);
  }

  void take_chunks() {
    try {
      for (int64_t chunk = next++; chunk < chunks; chunk = next++) (*job)(chunk);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = chunks;
    }
  }

  void serve() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return closing || generation != seen; });
      if (closing) return;
      seen = generation;
      lock.unlock();
      take_chunks();
      lock.lock();
      if (--working == 0) done.notify_one();
    }
  }

  const int helpers;
  std::mutex one_job, mutex;
  std::condition_variable wake, done;
  std::vector<std::jthread> threads;
  const std::function<void(int64_t)>* job = nullptr;
  std::atomic<int64_t> next{0};
  int64_t chunks = 0;
  int working = 0;
  uint64_t generation = 0;
  bool closing = false;
  std::exception_ptr failure;
};

Cpu::Cpu(int threads) : threads_(threads), team_(std::make_unique<Team>(threads - 1)) {
  require(threads >= 1, "cpu: needs at least 1 thread a device, got ", threads);
}
Cpu::~Cpu() = default;

void Cpu::run_chunks(int64_t chunks, const std::function<void(int64_t)>& chunk) {
  if (threads_ == 1 || chunks <= 1) {
    for (int64_t i = 0; i < chunks; ++i) chunk(i);
    return;
  }
  team_->run(chunks, chunk);
}

}  // namespace sluice
