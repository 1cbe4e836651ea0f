// What the installed cuDNN makes of our descriptors. Plans need no GPU, only its properties; here those of an H200.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/cuda/cuda.h"
#include "core/cuda/cudnn_attention.h"
#include "core/cuda/cudnn_convolution.h"
#include "core/cuda/cudnn_kind.h"

namespace sluice::cudnn {
namespace {

using Pass = onednn::ConvolutionPass;

constexpr std::string_view kH200 =
    R"({"cudaDeviceId": 0, "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "totalGlobalMem": 150000000000,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
        "multiProcessorCount": 132, "maxCtasPerSM": 32, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
        "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
        "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 52428800, "pciDeviceId": 0, "isTccDriver": 0,
        "supportCoopLaunch": 1})";

/// 3 x 3 with stride 2 over an even extent, which needs padding behind only; 1 x 7 along rows; AmoebaNet's stem.
const Convolution kStride2{Pass::forward, DType::f32, 32, 16, 16, 16, 8, 8, 16, 3, 3, 2, 2, 0, 0};
const Convolution kWide{Pass::forward, DType::f32, 32, 8, 8, 16, 8, 8, 16, 1, 7, 1, 1, 0, 3};
const Convolution kStem{Pass::forward, DType::f32, 32, 64, 64, 3, 31, 31, 32, 3, 3, 2, 2, 0, 0};

class CudnnPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!library()) GTEST_SKIP() << library_missing_reason();
    // cuDNN compiles fused kernels only where it finds a driver to load them with; by its name it finds the one that is loaded already.
    const bool has_driver = dlopen("libcuda.so.1", RTLD_NOW) || dlopen(SLUICE_DRIVER_STAND_IN, RTLD_NOW);
    ASSERT_TRUE(has_driver) << dlerror();
    gpu_.emplace(*library(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    gpu_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(kH200));
    gpu_->finalize();
  }

  /// The workspaces of all plans that are not refused.
  std::vector<int64_t> workspaces(const std::shared_ptr<const Graph>& graph, bool tensor_cores) const {
    std::vector<int64_t> all;
    for (Proposal& proposal : proposals(*graph, *gpu_, tensor_cores)) {
      try {
        all.push_back(Plan(graph, std::move(proposal), *gpu_).workspace_bytes());
      } catch (const CallError& error) {
        EXPECT_TRUE(error.is_refusal()) << error.what();
      }
    }
    return all;
  }

  /// Plans that fit into the device's workspace.
  int64_t plans(const std::shared_ptr<const Graph>& graph, bool tensor_cores) const {
    const auto all = workspaces(graph, tensor_cores);
    return std::count_if(all.begin(), all.end(), [](int64_t bytes) { return bytes <= Cuda::kWorkspaceBytes; });
  }
  int64_t plans(Convolution of, Pass pass, DType dtype, bool tensor_cores) const {
    of.pass = pass;
    of.dtype = dtype;
    return plans(graph_of(*library(), of), tensor_cores);
  }
  /// Whether a plan for a slice fits; it takes a second to compile one.
  bool serves(Attention of) const {
    if (of.backward) of.slices = attention_slices(of.samples, of.heads, of.queries, of.keys);
    const auto graph = graph_of(*library(), slice_of(of));
    const int64_t room = std::max(Cuda::kWorkspaceBytes, of.slices.workspace_bytes);
    for (Proposal& proposal : proposals(*graph, *gpu_, true))
      if (Plan(graph, std::move(proposal), *gpu_).workspace_bytes() <= room) return true;
    return false;
  }

  std::optional<Descriptor> gpu_;
};

TEST_F(CudnnPlans, ServeEveryPassOfAmoebaNetsConvolutionsInF32WithAndWithoutTf32) {
  for (const Convolution& of : {kStride2, kWide, kStem})
    for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient})
      for (const bool tf32 : {false, true}) EXPECT_GT(plans(of, pass, DType::f32, tf32), 0) << static_cast<int>(pass) << tf32;
}

TEST_F(CudnnPlans, ServeForwardAndInputGradientInBf16) {
  for (const Convolution& of : {kStride2, kWide, kStem})
    for (const Pass pass : {Pass::forward, Pass::input_gradient})
      EXPECT_GT(plans(of, pass, DType::bf16, true), 0) << static_cast<int>(pass);
}

TEST_F(CudnnPlans, LeaveBf16WeightGradientsInF32ToUs) {
  if (library()->GetVersion() > 91900) GTEST_SKIP() << "known of cuDNN up to 9.19 only; a later one may serve them";
  for (const Convolution& of : {kStride2, kWide, kStem}) EXPECT_EQ(plans(of, Pass::weight_gradient, DType::bf16, true), 0);
}

/// q, k and v in rows of one packed tensor where they are alike, and so are their gradients.
Attention attention(bool backward, bool causal, int64_t samples, int64_t tokens, int64_t heads, int64_t width, int64_t key_heads = 0) {
  const bool is_packed = key_heads == 0;
  if (is_packed) key_heads = heads;
  const auto in_rows_of = [&](int64_t row_heads) { return HeadStrides{tokens * row_heads * width, row_heads * width, width}; };
  const HeadStrides q = in_rows_of(is_packed ? 3 * heads : heads), k = in_rows_of(is_packed ? 3 * heads : key_heads), y = in_rows_of(heads);
  Attention of{backward, causal, samples, tokens, tokens, heads, key_heads, width, q, k, k, y, {}, {}, {}, {}, {samples, heads}};
  if (backward) of.dy = y, of.dq = q, of.dk = k, of.dv = k;
  return of;
}

TEST_F(CudnnPlans, ServeAttentionForward) {
  for (const bool causal : {true, false}) {
    EXPECT_TRUE(serves(attention(false, causal, 8, 1024, 12, 64))) << causal;
    EXPECT_TRUE(serves(attention(false, causal, 2, 4096, 16, 128))) << causal;
    EXPECT_TRUE(serves(attention(false, causal, 2, 4096, 16, 128, 4))) << causal;
    EXPECT_TRUE(serves(attention(false, causal, 1, 100, 2, 40))) << causal;
  }
}

TEST_F(CudnnPlans, ServeAttentionBackwardInSlicesWhoseScoresFitTheWorkspace) {
  for (const bool causal : {true, false}) {
    EXPECT_TRUE(serves(attention(true, causal, 1, 1024, 12, 64))) << causal;
    EXPECT_TRUE(serves(attention(true, causal, 1, 512, 16, 128))) << causal;
    EXPECT_TRUE(serves(attention(true, causal, 32, 1024, 12, 64))) << causal << ": 8 slices of 4 samples";
    EXPECT_TRUE(serves(attention(true, causal, 16, 1024, 25, 64))) << causal << ": 8 slices of 2 samples";
    EXPECT_TRUE(serves(attention(true, causal, 2, 4096, 16, 128))) << causal << ": 8 slices of 4 heads";
    EXPECT_TRUE(serves(attention(true, causal, 1, 100, 2, 40))) << causal;
    const int64_t score_bytes = int64_t{2} * 8 * 12 * 1024 * 1024;
    for (const int64_t bytes : workspaces(graph_of(*library(), attention(true, causal, 8, 1024, 12, 64)), true))
      EXPECT_GE(bytes, score_bytes) << "less would mean another algorithm for dq";
  }
}

}  // namespace
}  // namespace sluice::cudnn
