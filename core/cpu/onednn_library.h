#pragma once
#include <string>

namespace sluice::onednn {

/// Which library the program found when it started: "oneDNN 2.6.3"; empty in builds without it.
std::string version();

/// The instructions that it may choose kernels with, on this processor and under its environment variables (DNNL_MAX_CPU_ISA):
/// "avx512_core_bf16"; empty in builds without it.
std::string instruction_set();

}  // namespace sluice::onednn
