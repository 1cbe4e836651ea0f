// Convolutions through the emulated cuDNN (tests/emulation/cudnn.h): which algorithms are taken, which are left out, and what is kept.
#include "core/cuda/cudnn.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/file/file.h"
#include "core/ops/convolution.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/emulated/emulated_cudnn_test.h"
#include "tests/emulation/cudnn.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

using emulation::CudnnEngine;
using emulation::emulated_cudnn;

constexpr CudnnEngine kRight{1, {}, 4096, CudnnEngine::right};
const Window kWindow{3, 3, 2, 2};

/// The process has one cache: its folder and what an earlier process left in it are there before the first convolution.
class CacheFolder : public ::testing::Environment {
 public:
  void SetUp() override {
    setenv("SLUICE_CACHE_DIR", folder_.path().c_str(), 1);
    folder_.write("gpu-algorithms.json",
                  join(R"({"format": 1, "algorithms": {)", entry(20, 0, 1), ", ", entry(21, 7, 1), ", ", entry(22, 0, 9), "}}"));
  }
  static std::string kept() { return read_file(folder_.path() / "gpu-algorithms.json"); }
  /// Of the forward convolution of images of that extent.
  static std::string key(int64_t extent) {
    return join(describe_gpu(0).name, ", driver ", describe_gpu(0).driver_version, ", cuDNN 9.19.0: forward f32 [1, ", extent, ", ", extent,
                ", 2] [3, 3, 3] to [", (extent + 1) / 2, ", ", (extent + 1) / 2, "], strides 2 2, before ", extent % 2, " ", extent % 2);
  }

 private:
  static std::string entry(int64_t extent, int place, int engine) {
    return join('"', key(extent), R"(": {"candidates": 8, "choice": "proposal )", place, ", engine ", engine, R"("})");
  }
  static inline TemporaryFolder folder_;
};
const auto* const kCacheFolder = ::testing::AddGlobalTestEnvironment(new CacheFolder);

class CudnnTest : public testing::EmulatedCudnnTest {
 protected:
  CudnnTest() : EmulatedCudnnTest(kRight) {}

  static Tensor normal(const char* name, const Shape& shape, DType dtype, const DevicePtr& device) {
    Tensor made = empty(shape, DType::f32);
    fill_normal(made, 0, 1, random_key(1, name));
    return tensor_of(made.to_vector(), shape, dtype, device);
  }

  /// All three passes over images of an extent that no other test has, so that each chooses for the first time.
  struct Passes {
    std::vector<double> y, dx, dweight;
  };
  static Passes passes(int64_t extent, const DevicePtr& device, DType dtype = DType::f32) {
    const Tensor x = normal("x", {1, extent, extent, 2}, dtype, device), weight = normal("weight", {3, 3, 3, 2}, dtype, device);
    const Tensor y = conv2d(x, weight, kWindow), dy = normal("dy", y.shape(), dtype, device);
    return {y.to_vector(), conv2d_input_gradient(dy, weight, x.shape(), kWindow).to_vector(),
            conv2d_weight_gradient(dy, x, weight.shape(), kWindow).to_vector()};
  }
  static Tensor forward(int64_t extent, const DevicePtr& device, DType dtype = DType::f32) {
    return conv2d(normal("x", {1, extent, extent, 2}, dtype, device), normal("weight", {3, 3, 3, 2}, dtype, device), kWindow);
  }

  static void expect_like_cpu(const Passes& found, int64_t extent, DType dtype = DType::f32) {
    const Passes wanted = passes(extent, default_device(), dtype);
    const double tolerance = dtype == DType::bf16 ? 0.2 : 1e-4;
    for (const auto& [a, b] : {std::pair(&found.y, &wanted.y), {&found.dx, &wanted.dx}, {&found.dweight, &wanted.dweight}}) {
      ASSERT_EQ(a->size(), b->size());
      for (size_t i = 0; i < a->size(); ++i) ASSERT_NEAR((*a)[i], (*b)[i], tolerance) << i;
    }
  }

  const DevicePtr gpu_ = make_device("cuda:0");
};

TEST_F(CudnnTest, ServesAllPassesAlsoWithPaddingBehindOnly) {
  for (const int64_t extent : {4, 5}) {  // even: 0 before and 1 behind
    offer({kRight});
    expect_like_cpu(passes(extent, gpu_), extent);
    EXPECT_GE(ran().size(), 3u);
  }
}

TEST_F(CudnnTest, ServesGroupsOneAfterTheOther) {
  const Tensor x = normal("x", {2, 5, 5, 4}, DType::f32, gpu_), weight = normal("weight", {6, 3, 3, 2}, DType::f32, gpu_);
  const auto served = conv2d(x, weight, kWindow, 2).to_vector();
  EXPECT_GE(ran().size(), 2u);
  setenv("SLUICE_CUDNN", "0", 1);
  const auto own = conv2d(x, weight, kWindow, 2).to_vector();
  for (size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(served[i], own[i], 1e-5);
}

TEST_F(CudnnTest, LeavesBf16WeightGradientsInF32ToUs) {
  expect_like_cpu(passes(6, gpu_, DType::bf16), 6, DType::bf16);
  const size_t runs = ran().size();
  EXPECT_GE(runs, 2u);
  passes(6, gpu_, DType::bf16);
  EXPECT_EQ(ran().size(), runs + 2) << "forward and the gradient of the input, chosen already";
}

TEST_F(CudnnTest, DoesNothingWhereItIsMissingOrForbiddenOrNotTuned) {
  emulated_cudnn().is_there = false;
  EXPECT_EQ(cudnn::unavailable_reason(), "the emulated machine has no cuDNN");
  EXPECT_EQ(cudnn::version_text(), "");
  expect_like_cpu(passes(7, gpu_), 7);
  const auto other = make_device("cuda:0");
  emulated_cudnn().is_there = true;
  EXPECT_EQ(cudnn::unavailable_reason(), "");
  EXPECT_EQ(cudnn::version_text(), "9.19.0");
  setenv("SLUICE_CUDNN", "0", 1);
  EXPECT_EQ(cudnn::unavailable_reason(), "SLUICE_CUDNN=0 is set");
  expect_like_cpu(passes(7, other), 7);
  unsetenv("SLUICE_CUDNN");
  end_tuning();
  expect_like_cpu(passes(7, other), 7);
  EXPECT_TRUE(ran().empty()) << "outside of a TuningScope nothing that was not compared before";
}

TEST_F(CudnnTest, WarnsAndLeavesOutWhatDeviates) {
  offer({{1, {}, 0, CudnnEngine::deviates}, {2, {}, 0, CudnnEngine::is_slow}});
  ::testing::internal::CaptureStderr();
  const auto y = forward(8, gpu_).to_vector(), wanted = forward(8, default_device()).to_vector();
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(ran().back(), 2);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 1e-4);
  EXPECT_NE(warnings.find("sluice: warning: cuDNN's proposal 0, engine 1 is left out, because it deviates: element "), std::string::npos)
      << warnings;
}

TEST_F(CudnnTest, KeepsTheOwnKernelsWhereEveryAlgorithmDeviates) {
  offer({{1, {}, 0, CudnnEngine::deviates}, {2, {}, 0, CudnnEngine::changes_with_every_run}});
  ::testing::internal::CaptureStderr();
  expect_like_cpu(passes(9, gpu_), 9);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("engine 1 is left out, because it deviates: element "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("engine 2 is left out, because it deviates: in a second run element "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("for " + describe_gpu(0).name), std::string::npos) << warnings;
  const size_t trials = ran().size();
  expect_like_cpu(passes(9, gpu_), 9);
  EXPECT_EQ(ran().size(), trials) << "it is tried once";
}

TEST_F(CudnnTest, LeavesOutWhatIsNotDeterministicTransformsOrNeedsMoreThanTheWorkspace) {
  offer({{1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0, CudnnEngine::right},
         {2, {CUDNN_NUMERICAL_NOTE_FFT}, 0, CudnnEngine::right},
         {3, {}, Cuda::kWorkspaceBytes + 1, CudnnEngine::right},
         {4, {}, 0, CudnnEngine::is_refused},
         {5, {}, 0, CudnnEngine::fails},
         {6, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, Cuda::kWorkspaceBytes, CudnnEngine::right}});
  expect_like_cpu(passes(10, gpu_), 10);
  for (const int64_t engine : ran()) EXPECT_EQ(engine, 6);
  EXPECT_FALSE(ran().empty());
}

TEST_F(CudnnTest, UsesTensorCoresForF32OnlyWithTf32) {
  offer({{1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0, CudnnEngine::right}});
  passes(11, gpu_);
  EXPECT_TRUE(ran().empty());
  passes(11, gpu_, DType::bf16);
  EXPECT_FALSE(ran().empty());
  emulated_cudnn().ran.clear();
  const auto tf32 = make_device("cuda:0", {.allow_tf32 = true});
  passes(11, tf32);
  EXPECT_FALSE(ran().empty());
}

TEST_F(CudnnTest, ChoosesOnceForAllDevicesOfAProcess) {
  const auto first = forward(12, gpu_).to_vector();
  const size_t trials = ran().size();
  EXPECT_EQ(forward(12, make_device("cuda:0")).to_vector(), first);
  EXPECT_EQ(ran().size(), trials + 1);
}

TEST_F(CudnnTest, RunsTheOwnKernelsWhereTheLibraryHasNoDriver) {
  emulated_cudnn().has_driver = false;
  ::testing::internal::CaptureStderr();
  expect_like_cpu(passes(13, gpu_), 13);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("cudnnCreate failed: CUDNN_STATUS_NOT_INITIALIZED (no driver)"), std::string::npos) << warnings;
}

TEST_F(CudnnTest, NamesTheCallThatFailsLater) {
  forward(14, gpu_);
  offer({{1, {}, 0, CudnnEngine::fails}});
  expect_error<DeviceError>([&] { forward(14, gpu_); },
                            {"cudnnBackendExecute failed: CUDNN_STATUS_EXECUTION_FAILED (this engine always fails)", "SLUICE_CUDNN=0"});
}

TEST_F(CudnnTest, KeepsTheOwnKernelsWhereTheyAreFaster) {
  unsetenv("SLUICE_CUDNN");
  offer({{1, {}, 0, CudnnEngine::is_slow}});
  forward(15, gpu_);
  const size_t trials = ran().size();
  EXPECT_GT(trials, 0u);
  forward(15, gpu_);
  EXPECT_EQ(ran().size(), trials);
  EXPECT_EQ(gpu_choices().at(CacheFolder::key(15)), "own kernels");
  EXPECT_NE(CacheFolder::kept().find(CacheFolder::key(15)), std::string::npos) << CacheFolder::kept();
}

TEST_F(CudnnTest, KeepsNoChoiceThatIsForced) {
  forward(16, gpu_);
  EXPECT_EQ(CacheFolder::kept().find("[1, 16, 16, 2]"), std::string::npos) << CacheFolder::kept();
}

TEST_F(CudnnTest, KeepsNoChoiceOfZeros) {
  unsetenv("SLUICE_CUDNN");
  conv2d(zeros({1, 17, 17, 2}, DType::f32, gpu_), zeros({3, 3, 3, 2}, DType::f32, gpu_), kWindow);
  EXPECT_TRUE(ran().empty()) << "equal zeros say nothing";
  EXPECT_EQ(CacheFolder::kept().find("[1, 17, 17, 2]"), std::string::npos) << CacheFolder::kept();
}

TEST_F(CudnnTest, TakesAnEarlierChoiceWithoutTrials) {
  unsetenv("SLUICE_CUDNN");
  end_tuning();
  offer({kRight, {2, {}, 0, CudnnEngine::right}});
  forward(20, gpu_);
  EXPECT_EQ(ran(), std::vector<int64_t>{1});
  forward(21, gpu_);  // a place that is not there
  forward(22, gpu_);  // another engine at that place
  EXPECT_EQ(ran(), std::vector<int64_t>{1});
}

TEST_F(CudnnTest, GoesOverToAnAdoptedChoiceWithoutTrials) {
  unsetenv("SLUICE_CUDNN");
  offer({{1, {}, 0, CudnnEngine::is_slow}, {2, {}, 0, CudnnEngine::is_slow}});
  forward(24, gpu_);
  EXPECT_EQ(gpu_choices().at(CacheFolder::key(24)), "own kernels");
  adopt({{CacheFolder::key(24), "proposal 1, engine 2"}});
  emulated_cudnn().ran.clear();
  forward(24, gpu_);
  forward(24, make_device("cuda:0"));
  EXPECT_EQ(ran(), (std::vector<int64_t>{2, 2}));
  adopt({{CacheFolder::key(24), "own kernels"}});
  forward(24, gpu_);
  EXPECT_EQ(ran().size(), 2u);
}

TEST_F(CudnnTest, ChoosesNothingWhileAGraphIsCaptured) {
  const Tensor x = normal("x", {1, 23, 23, 2}, DType::f32, gpu_), weight = normal("weight", {3, 3, 3, 2}, DType::f32, gpu_);
  const Tensor y = empty({1, 12, 12, 3}, DType::f32, gpu_);
  const cudnn::Convolution of{onednn::ConvolutionPass::forward, DType::f32, 1, 23, 23, 2, 12, 12, 3, 3, 3, 2, 2, 1, 1};
  gpu_->synchronize();
  ASSERT_EQ(cudaStreamBeginCapture(gpu_->cuda().stream(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_FALSE(cudnn::convolve(gpu_->cuda(), of, {x.data(), weight.data(), y.data()}, [] { FAIL() << "no trials in a capture"; }));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(gpu_->cuda().stream(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  forward(23, gpu_);
  EXPECT_TRUE(ran().empty()) << "what a captured graph runs stays the choice";
}

TEST_F(CudnnTest, LeavesUnalignedOperandsToUs) {
  const Tensor x = normal("x", {1 * 18 * 18 * 2 + 1}, DType::f32, gpu_).slice(0, 1, 18 * 18 * 2 + 1).reshape({1, 18, 18, 2});
  conv2d(x, normal("weight", {3, 3, 3, 2}, DType::f32, gpu_), kWindow);
  EXPECT_TRUE(ran().empty());
}

}  // namespace
}  // namespace sluice
