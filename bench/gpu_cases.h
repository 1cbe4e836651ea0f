#pragma once
#include <vector>

#include "tests/ops/op_case.h"

namespace sluice::bench {

/// The rows of op_bench on a GPU: sizes of GPT-2 with 64 to 128 samples of 1024 tokens, several times as large as a GPU's cache.
/// "matmul/8192", "attention/width_*" and "attention/gpt2" are compared with PyTorch's times by scripts/gpu_check/torch_kernels.py,
/// "convolution/*" and "attention/*" with and without cuDNN by beside_cudnn.py there.
std::vector<testing::NamedCase> gpu_cases();

}  // namespace sluice::bench
