// Attention through the emulated cuDNN: that the graphs of operations compute what the own kernels do, and which results are left out.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "core/cuda/cudnn.h"
#include "core/file/file.h"
#include "core/ops/attention.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/emulated/emulated_cudnn_test.h"
#include "tests/emulation/cudnn.h"

namespace sluice {
namespace {

using emulation::CudnnEngine;
using emulation::emulated_cudnn;

const CudnnEngine kRight{1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 256, CudnnEngine::right};
constexpr int64_t kHeads = 2, kWidth = 16;

/// Choices hold for the life of the process, so each test has numbers of tokens of its own.
class CudnnAttentionTest : public testing::EmulatedCudnnTest {
 protected:
  CudnnAttentionTest() : EmulatedCudnnTest(kRight) {}

  struct Values {
    std::vector<double> y, log_sum_exp, dq, dk, dv;
    bool operator==(const Values&) const = default;
  };

  Tensor normal(const char* name, const Shape& shape, DType dtype = DType::bf16) const {
    Tensor made = empty(shape, DType::f32);
    fill_normal(made, 0, 1, random_key(1, name));
    return tensor_of(made.to_vector(), shape, dtype, gpu_);
  }

  /// Both passes from and to heads that lie packed in rows, as models have them.
  Values packed(int64_t tokens, bool causal) const {
    const Tensor qkv = normal("qkv", {2, tokens, 3 * kHeads, kWidth}), dqkv = empty_like(qkv);
    const auto part = [](const Tensor& all, int64_t i) { return all.slice(2, i * kHeads, (i + 1) * kHeads); };
    const Tensor q = part(qkv, 0), k = part(qkv, 1), v = part(qkv, 2), dq = part(dqkv, 0), dk = part(dqkv, 1), dv = part(dqkv, 2);
    const AttentionResult result = attention_forward(q, k, v, {causal});
    attention_backward(q, k, v, result, normal("dy", q.shape()), {causal}, dq, dk, dv);
    return {result.y.to_vector(), result.log_sum_exp.to_vector(), dq.contiguous().to_vector(), dk.contiguous().to_vector(),
            dv.contiguous().to_vector()};
  }
  Values own(int64_t tokens, bool causal) const {
    setenv("SLUICE_CUDNN", "0", 1);
    const Values values = packed(tokens, causal);
    setenv("SLUICE_CUDNN", "1", 1);
    return values;
  }

  static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], tolerance) << i;
  }
  static void expect_near(const Values& found, const Values& wanted) {
    expect_near(found.y, wanted.y, 0.02);
    expect_near(found.log_sum_exp, wanted.log_sum_exp, 1e-4);
    for (const auto& [a, b] : {std::pair(&found.dq, &wanted.dq), {&found.dk, &wanted.dk}, {&found.dv, &wanted.dv}})
      expect_near(*a, *b, 0.05);
  }

  std::string warnings_of(int64_t tokens, bool causal, Values& values) const {
    ::testing::internal::CaptureStderr();
    values = packed(tokens, causal);
    return ::testing::internal::GetCapturedStderr();
  }

  const DevicePtr gpu_ = make_device("cuda:0");
};

TEST_F(CudnnAttentionTest, ServesBothPassesOfPackedHeadsWithTheNumbersOfOurKernels) {
  for (const bool causal : {true, false}) {
    offer({kRight});
    expect_near(packed(21, causal), own(21, causal));
    const size_t trials = ran().size();
    packed(21, causal);
    EXPECT_EQ(ran().size(), trials + 2) << "forward and backward, chosen already";
  }
}

TEST_F(CudnnAttentionTest, ServesCrossAttentionAndGroupsOfHeadsForward) {
  const Tensor q = normal("q", {2, 9, 4, kWidth}), k = normal("k", {2, 13, 2, kWidth}), v = normal("v", {2, 13, 2, kWidth});
  const AttentionResult served = attention_forward(q, k, v, {});
  const size_t runs = ran().size();
  EXPECT_GT(runs, 0u);
  const Tensor dq = empty_like(q), dk = empty_like(k), dv = empty_like(v);
  attention_backward(q, k, v, served, normal("dy", q.shape()), {}, dq, dk, dv);
  EXPECT_EQ(ran().size(), runs) << "backward with fewer key heads is ours";
  setenv("SLUICE_CUDNN", "0", 1);
  const AttentionResult wanted = attention_forward(q, k, v, {});
  expect_near(served.y.to_vector(), wanted.y.to_vector(), 0.02);
  expect_near(served.log_sum_exp.to_vector(), wanted.log_sum_exp.to_vector(), 1e-4);
}

TEST_F(CudnnAttentionTest, LeavesToUsWhatItsGraphsCannotSay) {
  const auto run = [&](const Shape& shape, int64_t keys, DType dtype, bool causal) {
    const Tensor q = normal("q", shape, dtype), k = normal("k", {shape[0], keys, shape[2], shape[3]}, dtype);
    attention_forward(q, k, k, {causal});
  };
  run({1, 5, 2, kWidth}, 5, DType::f32, true);
  run({1, 5, 2, 12}, 5, DType::bf16, true);
  run({1, 5, 2, kWidth}, 6, DType::bf16, true);
  run({0, 5, 2, kWidth}, 5, DType::bf16, true);
  EXPECT_TRUE(ran().empty()) << "f32, rows of 24 bytes, a mask aligned to the end, nothing to do";
  setenv("SLUICE_CUDNN", "0", 1);
  const Tensor q = normal("q", {1, 5, 2, kWidth}), dq = empty_like(q), dk = empty_like(q);
  const AttentionResult result = attention_forward(q, q, q, {.causal = true});
  setenv("SLUICE_CUDNN", "1", 1);
  attention_backward(q, q, q, result, q, {.causal = true}, dq, dk, Tensor());
  EXPECT_TRUE(ran().empty()) << "a gradient that nobody wants";
}

/// Backward of samples and heads that lie in rows, as the library gets it in slices.
TEST_F(CudnnAttentionTest, HasTheSameBitsInAnyNumberOfSlices) {
  constexpr int64_t kSamples = 10, kTokens = 32;
  const Shape shape{kSamples, kTokens, kHeads, kWidth};
  const Tensor q = normal("q", shape), k = normal("k", shape), v = normal("v", shape), dy = normal("dy", shape);
  const AttentionResult result = attention_forward(q, k, v, {.causal = true});
  const auto in_slices = [&](int64_t samples, int64_t heads) {
    const Tensor dq = empty_like(q), dk = empty_like(q), dv = empty_like(q), sums = empty_like(result.log_sum_exp);
    const cudnn::HeadStrides at{q.stride(0), q.stride(1), q.stride(2)};
    const cudnn::Attention of{true, true, kSamples, kTokens, kTokens, kHeads, kHeads, kWidth,          at,
                              at,   at,   at,       at,      at,      at,     at,     {samples, heads}};
    const cudnn::AttentionOperands on{q.data(),
                                      k.data(),
                                      v.data(),
                                      const_cast<void*>(result.y.data()),
                                      const_cast<void*>(result.log_sum_exp.data()),
                                      dy.data(),
                                      sums.data(),
                                      dq.data(),
                                      dk.data(),
                                      dv.data()};
    const size_t runs = ran().size();
    const auto own = [&] {
      setenv("SLUICE_CUDNN", "0", 1);
      attention_backward(q, k, v, result, dy, {.causal = true}, dq, dk, dv);
      setenv("SLUICE_CUDNN", "1", 1);
    };
    EXPECT_TRUE(cudnn::attend(gpu_->cuda(), of, on, own)) << samples << " samples, " << heads << " heads";
    EXPECT_GE(ran().size() - runs, static_cast<size_t>(kSamples / samples * kHeads / heads));
    return std::vector{dq.to_vector(), dk.to_vector(), dv.to_vector()};
  };
  offer({kRight});
  const auto whole = in_slices(kSamples, kHeads);
  const Tensor dq = empty_like(q), dk = empty_like(q), dv = empty_like(q);
  attention_backward(q, k, v, result, dy, {.causal = true}, dq, dk, dv);
  EXPECT_EQ(dq.to_vector(), whole[0]) << "the op's own call";
  EXPECT_EQ(in_slices(5, kHeads), whole);
  EXPECT_EQ(in_slices(2, kHeads), whole);
  EXPECT_EQ(in_slices(1, 1), whole);
}

TEST_F(CudnnAttentionTest, DropsAWrongResultWithAWarning) {
  offer({{1, {}, 0, CudnnEngine::deviates}, {2, {}, 0, CudnnEngine::changes_with_every_run}});
  Values values;
  const std::string warnings = warnings_of(22, true, values);
  EXPECT_EQ(values, own(22, true));
  for (const char* what : {"engine 1 is left out, because it deviates: result 1, element ",
                           "engine 2 is left out, because it deviates: in a second run result ",
                           "causal attention backward bf16 [2, 22, 2, 16] [22, 2], strides 2112/96/16"})
    EXPECT_NE(warnings.find(what), std::string::npos) << what << "\n" << warnings;
}

TEST_F(CudnnAttentionTest, DropsAForwardWhoseLogSumExpIsNotOurs) {
  offer({{1, {}, 0, CudnnEngine::deviates_in_f32}});
  Values values;
  const std::string warnings = warnings_of(23, true, values);
  const Values wanted = own(23, true);
  EXPECT_EQ(values.y, wanted.y);
  EXPECT_EQ(values.log_sum_exp, wanted.log_sum_exp);
  EXPECT_NE(warnings.find("it deviates: result 2, element "), std::string::npos) << warnings;
}

TEST_F(CudnnAttentionTest, ChoosesEachPassByItself) {
  offer({});
  packed(24, true);
  EXPECT_TRUE(ran().empty());
  const Values wanted = own(25, true);
  offer({{1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0, CudnnEngine::right},
         {2, {}, Cuda::kWorkspaceBytes + 1, CudnnEngine::right},
         {3, {}, 0, CudnnEngine::right}});
  expect_near(packed(25, true), wanted);
  for (const int64_t engine : ran()) EXPECT_EQ(engine, 3);
  EXPECT_FALSE(ran().empty());
}

TEST_F(CudnnAttentionTest, IsOursWhereTheLibraryIsMissing) {
  emulated_cudnn().is_there = false;
  EXPECT_EQ(packed(26, true), own(26, true));
  emulated_cudnn().is_there = true;
  unsetenv("SLUICE_CUDNN");
  end_tuning();
  EXPECT_EQ(packed(27, true), own(27, true)) << "nothing without a tuned choice";
  EXPECT_TRUE(ran().empty());
}

TEST_F(CudnnAttentionTest, WritesNothingBetweenTheRowsOfGradients) {
  const Tensor q = normal("q", {2, 28, kHeads, kWidth});
  const AttentionResult result = attention_forward(q, q, q, {.causal = true});
  const Tensor room = normal("room", {2, 28, 4 * kHeads, kWidth});
  const auto before = room.slice(2, 3 * kHeads, 4 * kHeads).contiguous().to_vector();
  const auto part = [&](int64_t i) { return room.slice(2, i * kHeads, (i + 1) * kHeads); };
  const size_t runs = ran().size();
  attention_backward(q, q, q, result, q, {.causal = true}, part(0), part(1), part(2));
  EXPECT_GT(ran().size(), runs);
  EXPECT_EQ(part(3).contiguous().to_vector(), before);
}

TEST_F(CudnnAttentionTest, KeepsTunedChoicesInTheFileOfTheConvolutions) {
  unsetenv("SLUICE_CUDNN");
  offer({{1, {}, 0, CudnnEngine::is_slow}});
  packed(29, false);
  const std::string kept = read_file(std::filesystem::path(getenv("SLUICE_CACHE_DIR")) / "gpu-algorithms.json");
  for (const char* pass : {"attention forward bf16 [2, 29, 2, 16] [29, 2], strides ", "attention backward bf16 [2, 29, 2, 16] [29, 2]"})
    EXPECT_NE(kept.find(join("cuDNN 9.19.0: ", pass)), std::string::npos) << kept;
}

}  // namespace
}  // namespace sluice
