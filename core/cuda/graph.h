#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda/gpu_memory.h"
#include "core/event.h"

struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace sluice {

/// What a device did with graphs so far.
struct GraphCounts {
  int64_t launched = 0;      ///< pieces
  int64_t instantiated = 0;  ///< of them: those for which no executable graph was there that could be updated
};

/// Captures what one thread enqueues on a device's stream, piece by piece, and launches each piece as one executable graph.
///
/// Between open() and close() a piece begins with the first kernel. It ends, launched, at launch(), and before anything that no capture
/// may hold: uploads, downloads, copies between GPUs, events, waits. Those run on the stream as ever, and the next kernel begins the next
/// piece. So order is that of the calls, and addresses and arguments may differ every time: they are captured anew, and the executable
/// graph kept for (place, piece) is updated; one of another topology is instantiated anew.
/// Threads  open, begin, launch, close: the device's. record and keep_until_launch: any; another thread's event is the one before the
///          piece under way, which is all that it can know of: a hand-over ends a piece.
/// Source   CUDA C++ Programming Guide, "CUDA Graphs"; captures are relaxed, so that the arena may grow in one.
class GraphCapture {
 public:
  /// Does nothing where `allowed` is false.
  GraphCapture(int index, CUstream_st* stream, std::shared_ptr<GpuMemory> memory, bool allowed);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  void open(int64_t place);
  /// A piece, where capturing is open and none is under way. Errors  DeviceError.
  void begin() {
    if (is_open_.load(std::memory_order_relaxed)) begin_piece();
  }
  /// Ends and launches the piece under way, if there is one. Errors  DeviceError; no capture is under way then.
  void launch();
  /// Drops what was not launched.
  void close() noexcept;

  /// An event after all that was enqueued.
  Event record(bool with_time);
  /// While a piece is under way memory that it may use cannot be freed: then takes it over and returns true.
  bool keep_until_launch(void* memory, size_t bytes) noexcept;
  GraphCounts counts() const;

 private:
  void begin_piece();
  CUgraph_st* end_capture();
  CUgraphExec_st* executable_of(CUgraph_st* graph);
  void free_kept() noexcept;

  int index_;
  CUstream_st* stream_;
  std::shared_ptr<GpuMemory> memory_;
  bool allowed_, is_under_way_ = false;
  std::atomic<bool> is_open_{false};
  std::thread::id owner_;
  int64_t place_ = 0;
  int piece_ = 0;
  Event before_;  ///< the piece under way
  std::map<std::pair<int64_t, int>, CUgraphExec_st*> executables_;
  std::vector<std::pair<void*, size_t>> to_free_;
  GraphCounts counts_;
  mutable std::recursive_mutex mutex_;
};

}  // namespace sluice
