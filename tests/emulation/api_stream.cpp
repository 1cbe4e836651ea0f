#include <algorithm>

#include "core/error.h"
#include "tests/emulation/runtime.h"

// Streams and events.
using namespace sluice::emulation;

namespace {

/// Answers a query after `passed`; every eighth one runs the work first.
template <class Run>
cudaError_t answer(unsigned& queries, bool passed, Run&& run) {
  if (passed) return cudaSuccess;
  if (++queries % kQueriesThatRun != 0) return cudaErrorNotReady;
  try {
    run();
  } catch (const Blocked&) {
    return cudaErrorNotReady;
  }
  return cudaSuccess;
}

/// An event that was recorded inside of a capture marks a place in a graph, which nobody can wait for.
void refuse_captured(const char* call, cudaEvent_t event) {
  if (event->capture) spoil(*event->capture, cudaErrorCapturedEvent, sluice::join(call, ": the event was recorded inside of a capture"));
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](Runtime& state) {
    state.queues.push_back(std::make_shared<Queue>(current_device(), !(flags & cudaStreamNonBlocking)));
    *stream = new CUstream_st{state.queues.back()};
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }

/// Destroys also after a kernel's fault.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(runtime().mutex);
  if (!stream) return remember(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: the default stream cannot be destroyed");
  std::erase(runtime().captured, stream);
  const cudaError_t status = call([&](Runtime& state) { state.wait_for([&] { stream->queue->run_all(); }); });
  std::erase(runtime().queues, stream->queue);
  delete stream;
  return status;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](Runtime& state) {
    refuse_to_wait_for("cudaStreamSynchronize", stream);
    ++state.stream_waits;
    state.wait_for([&] { state.queue_of(stream)->run_all(); });
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&](Runtime&) {
    if (!stream) return cudaSuccess;
    refuse_to_wait_for("cudaStreamQuery", stream);
    Queue& queue = *stream->queue;
    return answer(stream->queries, queue.run_count() == queue.put_count(), [&] { queue.run_all(); });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&](Runtime& state) {
    if (event->capture) {
      check(stream && stream->capture == event->capture, cudaErrorNotSupported,
            "cudaStreamWaitEvent: a capture that other streams join is not emulated");
      return;
    }
    if (!event->mark) return;
    if (is_captured(stream))
      spoil(*stream->capture, cudaErrorStreamCaptureIsolation,
            "cudaStreamWaitEvent: the event was recorded outside of the stream's capture");
    state.submit(stream, {CUgraphNode_st::Kind::wait, [mark = event->mark] { mark->pass(); }});
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return call([&](Runtime& state) { state.submit(stream, {CUgraphNode_st::Kind::host_function, [=] { function(argument); }}); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&](Runtime&) { *event = new CUevent_st; });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard lock(runtime().mutex);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Runtime& state) {
    const auto& queue = state.queue_of(stream);
    check(queue->device() == current_device(), cudaErrorInvalidResourceHandle, "cudaEventRecord: the stream belongs to device ",
          queue->device(), ", the current one is ", current_device(), "; call cudaSetDevice");
    event->queries = 0;
    event->capture = is_captured(stream) ? stream->capture : nullptr;
    event->mark = event->capture ? nullptr : put_mark(queue);
    if (!stream) state.submit(stream, {CUgraphNode_st::Kind::wait, [] {}});
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Runtime&) {
    refuse_captured("cudaEventQuery", event);
    refuse_as_unsafe("cudaEventQuery");
    return answer(event->queries, !event->mark || event->mark->passed(), [&] { event->mark->pass(); });
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Runtime& state) {
    refuse_captured("cudaEventSynchronize", event);
    if (event->mark) state.wait_for([&] { event->mark->pass(); });
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call([&](Runtime&) {
    refuse_captured("cudaEventElapsedTime", from);
    refuse_captured("cudaEventElapsedTime", to);
    check(from->mark && to->mark, cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: both events must be recorded first");
    if (!from->mark->passed() || !to->mark->passed()) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(to->mark->milliseconds - from->mark->milliseconds);
    return cudaSuccess;
  });
}
