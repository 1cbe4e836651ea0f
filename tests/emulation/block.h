#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/random_bag.h"

namespace sluice::emulation {

/// What a kernel did wrong: launch, block, thread and what to look at.
struct KernelFault : std::runtime_error {
  using runtime_error::runtime_error;
};

/// One launch of a kernel.
struct Launch {
  uint64_t number = 0;
  dim3 grid, block;
  size_t shared_bytes = 0;
  std::function<void()> thread;

  uint32_t blocks() const { return grid.x * grid.y * grid.z; }
  uint32_t threads() const { return block.x * block.y * block.z; }
};

/// Executes blocks, one at a time. Each thread is a fiber that runs until it waits for others; then a random one of those that can run
/// goes on. A fiber whose thread has ended takes the next thread itself, so threads that never wait need no switch.
/// Threads  one at a time. Built-in functions of kernels find the block through `running()`.
class Block {
 public:
  static constexpr uint32_t kWarp = 32, kMaxThreads = 1024;

  Block();
  /// Errors  KernelFault; the block's other threads are abandoned where they are.
  void run(const Launch& launch, uint3 index, Random& random);
  /// The block that the calling OS thread executes, or null.
  static Block* running();

  /// @name Called by the thread that runs
  /// @{
  void warp_operation(const WarpOperation& operation, uint32_t mask, void* operand);
  int barrier(const char* name, bool predicate);
  void copy_async(void* shared, const void* global, size_t bytes);
  void commit_copies() { copies_[current_].committed = copies_[current_].under_way.size(); }
  void wait_for_copies();
  uint32_t lanes_of_warp() const;
  unsigned lane() const { return current_ % kWarp; }
  void set_fault(const std::string& what) { fault_ = place() + what; }
  /// Leaves the block for ever, once a fault is set. Frames of the running thread are not unwound: they must hold no memory.
  [[noreturn]] void abandon();
  const Fiber& fiber() const { return *fiber_; }
  /// "kernel launch #3, block (0,0,0), thread (5,0,0): "
  std::string place_of(uint32_t thread) const;
  std::string place() const { return place_of(current_); }
  /// @}

 private:
  /// A thread that waits names what for; mask 0 stands for a barrier.
  struct Thread {
    Fiber* fiber = nullptr;
    const char* waits_for = nullptr;
    uint32_t mask = 0;
    bool exited = false;
  };
  /// To shared memory.
  struct Copies {
    struct Copy {
      void* to;
      const void* from;  ///< null: zeros
      size_t bytes;
    };
    std::vector<Copy> under_way;
    size_t committed = 0;  ///< of them
  };
  struct Gathering {
    const WarpOperation* operation = nullptr;
    uint32_t mask = 0, arrived = 0;
    void* operands[kWarp] = {};
  };
  struct Warp {
    uint32_t exited = 0;
    std::vector<Gathering> gatherings;
  };

  void prepare(const Launch& launch, uint3 index, Random& random);
  static void fiber_main();
  void run_threads();
  void exit_thread();
  void wait(const char* name, uint32_t mask);
  void go_on();
  Fiber& fiber_for(Thread& thread);
  void make_ready(uint32_t thread);
  Gathering& join_gathering(const WarpOperation& operation, uint32_t mask);
  void release(Warp& warp, Gathering& gathering, uint32_t lanes);
  uint3 index_of(uint32_t thread) const;
  std::string deadlock() const;

  const Launch* launch_ = nullptr;
  Random* random_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Copies> copies_;  ///< by thread
  std::vector<Warp> warps_;
  RandomBag ready_;
  uint32_t current_ = 0, exited_ = 0;
  uint32_t at_barrier_ = 0, barrier_predicates_ = 0, released_predicates_ = 0;
  const char* barrier_name_ = nullptr;
  std::optional<std::string> fault_;

  Fiber caller_;
  Fiber* fiber_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  size_t fibers_used_ = 0;
  std::vector<Fiber*> idle_;
};

}  // namespace sluice::emulation
