#include <thread>

#include "tests/emulation/device_array.h"
#include "tests/emulation/stream.h"

// What is captured runs when the graph is launched and never before; what CUDA forbids inside of a capture fails, with CUDA's codes.
namespace sluice::emulation {
namespace {

__global__ void add_to(int* y, const int* x) { *y += *x; }

__global__ void double_it(int* y) { *y *= 2; }

struct Graph {
  ~Graph() { cudaGraphDestroy(handle); }
  size_t nodes() const {
    size_t count = 99;
    EXPECT_EQ(cudaGraphGetNodes(handle, nullptr, &count), cudaSuccess);
    return count;
  }
  cudaGraph_t handle = nullptr;
};

struct Executable {
  ~Executable() { cudaGraphExecDestroy(handle); }
  cudaGraphExec_t handle = nullptr;
};

class Graphs : public ::testing::Test {
 protected:
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_.handle, mode), cudaSuccess);
  }
  void add(const DeviceArray<int>& to, const DeviceArray<int>& from) {
    ASSERT_EQ(run({1, 1, 0, stream_.handle}, add_to, to.data, from.data), cudaSuccess);
  }
  void end(Graph& graph) { ASSERT_EQ(cudaStreamEndCapture(stream_.handle, &graph.handle), cudaSuccess); }
  void launch(const Executable& executable) { ASSERT_EQ(cudaGraphLaunch(executable.handle, stream_.handle), cudaSuccess); }
  int value(const DeviceArray<int>& array) {
    EXPECT_EQ(cudaStreamSynchronize(stream_.handle), cudaSuccess);
    return array.values()[0];
  }
  /// `call` fails with the code, spoils the capture, and the stream works again after it.
  template <class Call>
  void expect_spoilt(cudaError_t code, const Call& call, cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
    begin(mode);
    EXPECT_EQ(call(), code);
    EXPECT_EQ(run({1, 1, 0, stream_.handle}, add_to, x_.data, one_.data), cudaErrorStreamCaptureInvalidated);
    Graph graph;
    EXPECT_EQ(cudaStreamEndCapture(stream_.handle, &graph.handle), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph.handle, nullptr);
    cudaGetLastError();
    const int before = value(x_);
    add(x_, one_);
    EXPECT_EQ(value(x_), before + 1);
  }

  const DeviceArray<int> x_{std::vector<int>{0}}, one_{std::vector<int>{1}}, ten_{std::vector<int>{10}};
  const Stream stream_;
};

TEST_F(Graphs, RunOnlyWhenLaunchedAndAsOftenAsThat) {
  begin();
  add(x_, one_);
  ASSERT_EQ(run({1, 1, 0, stream_.handle}, double_it, x_.data), cudaSuccess);
  Graph graph;
  end(graph);
  EXPECT_EQ(graph.nodes(), 2u);
  EXPECT_EQ(value(x_), 0) << "captured, not run";
  Executable executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable.handle, graph.handle), cudaSuccess);
  EXPECT_EQ(value(x_), 0) << "instantiated, not launched";
  launch(executable);
  EXPECT_EQ(x_.values()[0], 0) << "launched, not waited for";
  EXPECT_EQ(value(x_), 2);
  launch(executable);
  launch(executable);
  EXPECT_EQ(value(x_), 14);
}

TEST_F(Graphs, KeepTheOrderOfTheStreamAroundThem) {
  begin();
  ASSERT_EQ(run({1, 1, 0, stream_.handle}, double_it, x_.data), cudaSuccess);
  Graph graph;
  end(graph);
  Executable executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable.handle, graph.handle), cudaSuccess);
  add(x_, one_);
  launch(executable);
  add(x_, one_);
  EXPECT_EQ(value(x_), 3);
}

TEST_F(Graphs, TakeNewParametersForLaterLaunchesOnly) {
  Graph first, second;
  begin();
  add(x_, one_);
  end(first);
  begin();
  add(x_, ten_);
  end(second);
  Executable executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable.handle, first.handle), cudaSuccess);
  launch(executable);
  cudaGraphExecUpdateResultInfo info{};
  ASSERT_EQ(cudaGraphExecUpdate(executable.handle, second.handle, &info), cudaSuccess);
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  launch(executable);
  EXPECT_EQ(value(x_), 11);
}

TEST_F(Graphs, RefuseAnUpdateToAnotherTopologyAndStayAsTheyWere) {
  Graph kernel, two_kernels, memset, memset_elsewhere;
  const auto capture = [&](Graph& graph, const auto& work) {
    begin();
    work();
    end(graph);
  };
  capture(kernel, [&] { add(x_, one_); });
  capture(two_kernels, [&] { add(x_, one_), add(x_, one_); });
  capture(memset, [&] { cudaMemsetAsync(x_.data, 0, sizeof(int), stream_.handle); });
  Executable executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable.handle, kernel.handle), cudaSuccess);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable.handle, two_kernels.handle, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT_EQ(cudaGraphExecUpdate(executable.handle, memset.handle, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
  cudaGetLastError();
  launch(executable);
  EXPECT_EQ(value(x_), 1);

  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceArray<int> elsewhere(1);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  capture(memset_elsewhere, [&] { cudaMemsetAsync(elsewhere.data, 0, sizeof(int), stream_.handle); });
  Executable sets;
  ASSERT_EQ(cudaGraphInstantiate(&sets.handle, memset.handle), cudaSuccess);
  EXPECT_EQ(cudaGraphExecUpdate(sets.handle, memset_elsewhere.handle, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorParametersChanged);
  cudaGetLastError();
}

TEST_F(Graphs, AnEmptyCaptureHasNoNodes) {
  begin();
  Graph graph;
  end(graph);
  EXPECT_EQ(graph.nodes(), 0u);
}

TEST_F(Graphs, MayNotWaitForTheirOwnWorkWhileTheyAreCaptured) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  expect_spoilt(unsupported, [&] { return cudaStreamSynchronize(stream_.handle); });
  expect_spoilt(unsupported, [&] { return cudaStreamQuery(stream_.handle); });
  expect_spoilt(unsupported, [&] { return cudaDeviceSynchronize(); });
  const Event event;
  expect_spoilt(cudaErrorCapturedEvent, [&] {
    EXPECT_EQ(cudaEventRecord(event.handle, stream_.handle), cudaSuccess);
    return cudaEventSynchronize(event.handle);
  });
  expect_spoilt(cudaErrorCapturedEvent, [&] {
    EXPECT_EQ(cudaEventRecord(event.handle, stream_.handle), cudaSuccess);
    return cudaEventQuery(event.handle);
  });
}

TEST_F(Graphs, MayNotWaitForEventsFromOutside) {
  const Event event;
  ASSERT_EQ(cudaEventRecord(event.handle, stream_.handle), cudaSuccess);
  expect_spoilt(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(stream_.handle, event.handle); });
}

TEST_F(Graphs, TakeNoPageableMemory) {
  int pageable = 7;
  expect_spoilt(cudaErrorStreamCaptureUnsupported,
                [&] { return cudaMemcpyAsync(x_.data, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream_.handle); });
  expect_spoilt(cudaErrorStreamCaptureUnsupported,
                [&] { return cudaMemcpyAsync(&pageable, x_.data, sizeof(int), cudaMemcpyDeviceToHost, stream_.handle); });
}

TEST_F(Graphs, AllowMallocAndQueriesOfOtherEventsInRelaxedModeOnly) {
  const Event event;
  ASSERT_EQ(cudaEventRecord(event.handle, stream_.handle), cudaSuccess);
  int* memory = nullptr;
  const auto allocate = [&] { return cudaMalloc(&memory, sizeof(int)); };
  const auto query = [&] { return cudaEventQuery(event.handle); };
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    expect_spoilt(cudaErrorStreamCaptureUnsupported, allocate, mode);
    expect_spoilt(cudaErrorStreamCaptureUnsupported, query, mode);
  }
  begin();
  EXPECT_EQ(allocate(), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(query(), cudaSuccess) << "the record ran when memory was freed";
  Graph graph;
  end(graph);
}

TEST_F(Graphs, ConcernOtherThreadsInGlobalModeOnly) {
  int* memory = nullptr;
  const auto allocate_elsewhere = [&] {
    cudaError_t status = cudaSuccess;
    std::thread([&] { status = cudaMalloc(&memory, sizeof(int)); }).join();
    return status;
  };
  expect_spoilt(cudaErrorStreamCaptureUnsupported, allocate_elsewhere, cudaStreamCaptureModeGlobal);
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(allocate_elsewhere(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  cudaError_t ended = cudaSuccess;
  Graph graph;
  std::thread([&] { ended = cudaStreamEndCapture(stream_.handle, &graph.handle); }).join();
  EXPECT_EQ(ended, cudaErrorStreamCaptureWrongThread);
  end(graph);
  cudaFree(memory);
}

TEST_F(Graphs, BeginOncePerStreamAndNeverOnTheDefaultStream) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream_.handle, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  Graph graph, none;
  end(graph);
  EXPECT_EQ(cudaStreamEndCapture(stream_.handle, &none.handle), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamIsCapturing(stream_.handle, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  cudaGetLastError();
}

TEST_F(Graphs, ADefaultStreamThatACapturedStreamWaitsForTakesNoWork) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemset(x_.data, 0, sizeof(int)), cudaErrorStreamCaptureImplicit);
  Graph graph;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph.handle), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  cudaGetLastError();
}

}  // namespace
}  // namespace sluice::emulation
