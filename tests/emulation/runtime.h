#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"
#include "tests/emulation/block.h"
#include "tests/emulation/capture.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/queue.h"
#include "tests/emulation/ranks.h"
#include "tests/emulation/shared_memory.h"

struct CUstream_st {
  std::shared_ptr<sluice::emulation::Queue> queue;
  unsigned queries = 0;
  std::shared_ptr<sluice::emulation::Capture> capture = nullptr;  ///< under way
};
struct CUevent_st {
  std::shared_ptr<sluice::emulation::Mark> mark;        ///< null until it is recorded
  std::shared_ptr<sluice::emulation::Capture> capture;  ///< in which it was recorded last
  unsigned queries = 0;
};

namespace sluice::emulation {

constexpr int kDevices = Memory::kDevices;
constexpr unsigned kQueriesThatRun = 8;  ///< every so many queries run the work, so that pollers end

/// A call that is refused; later calls work.
struct Refusal {
  cudaError_t code;
  std::string text;
};
template <class... Parts>
void check(bool ok, cudaError_t code, const Parts&... parts);

/// A recursive mutex that a thread which waits for another rank can let go of, however often it holds it.
class RuntimeMutex {
 public:
  void lock() {
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    --depth_;
    mutex_.unlock();
  }
  /// Lets others in for so long. Threads  the one that holds it.
  void yield(std::chrono::microseconds time);

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;  ///< of the thread that holds it
};

/// All state of the emulated devices.
/// Threads  any, one at a time: `mutex` is held during every call, and so while kernels run; but not while a call waits for another rank.
struct Runtime {
  RuntimeMutex mutex;
  Memory memory;
  SharedMemory shared_memory;
  Block block;
  std::vector<std::shared_ptr<Queue>> queues;  ///< of live streams; the first kDevices are the devices' default streams
  std::vector<cudaStream_t> captured;          ///< streams with a capture under way
  std::map<std::pair<int, const void*>, size_t> shared_bytes_allowed;  ///< by device and kernel, where it asked
  std::string fault;                                                   ///< of a kernel; until `reset`
  uint64_t seed = 1, launches = 0;
  uint64_t host_reads = 0, stream_waits = 0;  ///< copies from a device to the host; calls that wait for a stream
  uint64_t allocations_left = UINT64_MAX;
  bool has_peer_access = true;
  Ranks ranks;  ///< that wait for each other

  Runtime();
  /// All work of one device.
  void run_device(int device);
  /// That of all others, as far as it waits for no rank.
  void run_others(int device);
  /// Queues work on a stream, or adds it to the stream's capture; on the default stream it runs at once, after that of the streams that
  /// wait for it.
  void submit(cudaStream_t stream, CUgraphNode_st node);
  const std::shared_ptr<Queue>& queue_of(cudaStream_t stream);
  void set_fault(const std::string& what);

  /// Calls `is_over` until it returns true, and lets other threads in between. It changes nothing when it returns false.
  /// Errors  KernelFault when the ranks are torn down.
  template <class IsOver>
  void wait_until(IsOver&& is_over) {
    for (; !is_over(); mutex.yield(std::chrono::microseconds(100))) {
      ranks.note_wait();
      if (ranks.are_torn_down()) throw KernelFault("a wait for another rank was torn down");
    }
    ranks.note_end_of_wait();
  }
  /// The same for work of queues that `run` runs.
  template <class Run>
  void wait_for(Run&& run) {
    wait_until([&] {
      try {
        run();
        return true;
      } catch (const Blocked&) {
        return false;
      }
    });
  }
};
Runtime& runtime();

int current_device();
/// Keeps the error for cudaGetLastError of this thread, and its text for cudaGetErrorString.
cudaError_t remember(cudaError_t code, const std::string& text);

/// Runs the body of a call: refused when a kernel has failed, and a kernel that fails in it makes it fail. A body may return an error that
/// is not kept, such as cudaErrorNotReady.
template <class Body>
cudaError_t call(Body&& body) {
  Runtime& state = runtime();
  std::lock_guard lock(state.mutex);
  try {
    if (state.fault.empty()) {
      if constexpr (std::is_void_v<decltype(body(state))>) {
        body(state);
        return cudaSuccess;
      } else {
        return body(state);
      }
    }
  } catch (const KernelFault& fault) {
    state.set_fault(fault.what());
  } catch (const Refusal& refusal) {
    return remember(refusal.code, refusal.text);
  }
  return remember(cudaErrorLaunchFailure, state.fault);
}

template <class... Parts>
void check(bool ok, cudaError_t code, const Parts&... parts) {
  if (!ok) throw Refusal{code, join(parts...)};
}

}  // namespace sluice::emulation
