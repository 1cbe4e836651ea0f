// Kernels that are captured and launched as graphs: the order of calls holds, whatever cuts a graph in two, and errors leave a device that
// works. On the emulated GPU nothing that was captured runs before its launch, and calls that are illegal in a capture fail.
#include <thread>

#include "core/arena.h"
#include "core/graph_scope.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/linear.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

constexpr int64_t kElements = 100;
std::vector<double> all(double value) { return std::vector<double>(kElements, value); }
Tensor filled(double value, const DevicePtr& device) { return full({kElements}, value, DType::f32, device); }

class CudaGraphs : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) gpu_ = make_device("cuda:0");
  }
  GraphCounts counts() const { return graph_counts(*gpu_); }
  DevicePtr gpu_;
};

TEST_F(CudaGraphs, GiveWhatKernelsGive) {
  Tensor y;
  {
    GraphScope graph(*gpu_, true, 0);
    const Tensor x = filled(2, gpu_);
    y = add(x, x);
    fill(x, 7);
    graph.launch();
  }
  EXPECT_EQ(y.to_vector(), all(4));
  EXPECT_EQ(counts().launched, 1);
}

TEST_F(CudaGraphs, AreNotUsedUnlessWanted) {
  GraphScope graph(*gpu_, false, 0);
  const Tensor x = filled(2, gpu_);
  graph.launch();
  EXPECT_EQ(x.to_vector(), all(2));
  EXPECT_EQ(counts().launched, 0);
}

TEST_F(CudaGraphs, AreUpdatedWithNewAddressesAndArguments) {
  std::vector<Tensor> kept;
  for (int step = 0; step < 4; ++step) {
    GraphScope graph(*gpu_, true, 0);
    const Tensor x = filled(step, gpu_);
    kept.push_back(add(x, x));
    graph.launch();
  }
  for (int step = 0; step < 4; ++step) EXPECT_EQ(kept[step].to_vector(), all(2 * step));
  EXPECT_EQ(counts().launched, 4);
  EXPECT_EQ(counts().instantiated, 1);
}

TEST_F(CudaGraphs, AreMadeAnewForOtherWorkAndForOtherPlaces) {
  const Tensor x = filled(1, gpu_);
  const auto run = [&](int64_t place, int kernels) {
    GraphScope graph(*gpu_, true, place);
    for (int i = 0; i < kernels; ++i) fill(x, i);
    graph.launch();
    return counts().instantiated;
  };
  EXPECT_EQ(run(0, 2), 1);
  EXPECT_EQ(run(1, 3), 2);
  EXPECT_EQ(run(0, 2), 2);
  EXPECT_EQ(run(1, 3), 2);
  EXPECT_EQ(run(0, 5), 3) << "another number of kernels";
  EXPECT_EQ(x.to_vector(), all(4));
}

TEST_F(CudaGraphs, AreCutWhereTheHostReadsOrWrites) {
  GraphScope graph(*gpu_, true, 0);
  const Tensor x = filled(1, gpu_);
  EXPECT_EQ(x.to_vector(), all(1)) << "a download inside";
  const Tensor uploaded = tensor_of(all(5), {kElements}, DType::f32, gpu_);
  const Tensor y = add(x, uploaded);
  gpu_->synchronize();
  fill(x, 3);
  graph.launch();
  EXPECT_EQ(y.to_vector(), all(6));
  EXPECT_EQ(x.to_vector(), all(3));
  EXPECT_EQ(counts().launched, 3);
}

TEST_F(CudaGraphs, AreCutAtMoments) {
  const auto other = make_device("cuda:0");
  GraphScope graph(*gpu_, true, 0);
  const Tensor x = filled(1, gpu_), there = x.to(other);
  EXPECT_EQ(there.clone().to_vector(), all(1)) << "handed over before the launch of all";
  const Tensor here = filled(4, other).to(gpu_), y = add(here, here);
  graph.launch();
  EXPECT_EQ(y.to_vector(), all(8));
}

TEST_F(CudaGraphs, LetAnotherThreadTakeTheMomentBeforeThem) {
  Event event;
  GraphScope graph(*gpu_, true, 0);
  const Tensor x = filled(1, gpu_);
  std::thread([&] { event = gpu_->record(); }).join();
  wait_until(event);
  fill(x, 2);
  graph.launch();
  EXPECT_EQ(x.to_vector(), all(2));
  EXPECT_EQ(counts().launched, 1) << "another thread does not cut them";
}

TEST_F(CudaGraphs, KeepMemoryUntilTheyAreLaunched) {
  Tensor y;
  {
    GraphScope graph(*gpu_, true, 0);
    {
      const Tensor x = filled(3, gpu_);
      y = add(x, x);
    }
    gpu_->arena().trim();  // with the block of x
    graph.launch();
  }
  EXPECT_EQ(y.to_vector(), all(6));
  EXPECT_EQ(gpu_->arena().kept_bytes(), 0u);
}

TEST_F(CudaGraphs, CaptureProducts) {
  const Tensor x = named_normal("x", 8 * 16, DType::f32, gpu_).reshape({8, 16}), w = named_normal("w", 16 * 16, DType::f32, gpu_);
  const Tensor eager = linear(x, w.reshape({16, 16}));
  GraphScope graph(*gpu_, true, 0);
  const Tensor captured = linear(x, w.reshape({16, 16}));
  graph.launch();
  EXPECT_EQ(captured.to_vector(), eager.to_vector());
}

TEST_F(CudaGraphs, DropWhatWasNotLaunchedAndTheDeviceWorksOn) {
  const Tensor x = filled(1, gpu_);
  try {
    GraphScope graph(*gpu_, true, 0);
    fill(x, 2);
    throw UsageError("a bad shape");
  } catch (const UsageError&) {
  }
  EXPECT_EQ(x.to_vector(), all(1));
  fill(x, 3);
  EXPECT_EQ(x.to_vector(), all(3));
}

TEST_F(CudaGraphs, ReportBadIdsLikeKernels) {
  const Tensor table = filled(1, gpu_).reshape({10, 10}), ids = tensor_of({3, 12}, {2}, DType::i32, gpu_);
  GraphScope graph(*gpu_, true, 0);
  const Tensor y = embedding(ids, table);
  graph.launch();
  expect_error<UsageError>([&] { gpu_->synchronize(); }, {"got 12 at position 1", "cuda:0"});
  EXPECT_NO_THROW(gpu_->synchronize());
}

TEST(GraphScope, DoesNothingOnOtherDevices) {
  for (const char* name : {"cpu:0", "meta:0", "h200:0"}) {
    const auto device = make_device(name);
    GraphScope graph(*device, true, 0);
    const Tensor x = filled(2, device);
    graph.launch();
    EXPECT_EQ(graph_counts(*device).launched, 0);
  }
}

}  // namespace
}  // namespace sluice
